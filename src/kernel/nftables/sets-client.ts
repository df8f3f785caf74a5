import { errno } from "../../base/errno.ts";
import { ipFamilies } from "../../base/ip.ts";
import { isNotFound, NetlinkError } from "../../netlink/errors.ts";
import { NetlinkTransport, type TransportDependencies } from "../../netlink/transport.ts";
import type { IpSet, ObservedIpSet } from "../../state/ip-set.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import { invalidEntry } from "../ipset/messages.ts";
import type { EntryChange, FailedChange, IpSets } from "../kernel.ts";
import {
  type ElementChange,
  type ElementGroup,
  groupElements,
  withoutRejected,
} from "./element-groups.ts";
import { readNftGeneration, readPortId } from "./generation.ts";
import { KnownPlaces } from "./known-places.ts";
import { createTable, type NftMessage, nftMessageKind, nftTransportOptions } from "./message.ts";
import { type IndexedChange, placeChanges, placesBefore } from "./overlaps.ts";
import { coveredName, elementsOf, entriesOf, type Layout } from "./set-keys.ts";
import {
  countElements,
  createSet,
  decodeElements,
  decodeSet,
  deleteSet,
  listElements,
  listSets,
  type NftSet,
  type SetHeader,
} from "./set-messages.ts";

/** An entry change, and its index in the caller's list. */
type PassedChange = EntryChange & IndexedChange;

/**
 * Sets in our nf_tables tables, which only rules in these tables can use. As in ipset, names are unique across both
 * families. Sets have no maximum number of entries, because nf_tables cannot change a maximum while a rule refers to
 * the set. Opens a socket; throws NetlinkError.
 */
export class NftSetsClient implements IpSets {
  readonly #transport: NetlinkTransport;
  /** All sets, as listed at this generation. */
  #listed: { readonly generation: number; readonly sets: readonly ObservedIpSet[] } | undefined;

  readonly #places = new KnownPlaces();

  constructor(parts: TransportDependencies) {
    this.#transport = new NetlinkTransport(parts, nftTransportOptions);
  }

  readPortId(): Promise<number> {
    return readPortId(this.#transport);
  }

  /** The kernel does not report the number of elements, so they are counted whenever a table has changed. */
  async listSets(): Promise<readonly ObservedIpSet[]> {
    const generation = await readNftGeneration(this.#transport);
    if (generation !== undefined && this.#listed?.generation === generation)
      return this.#listed.sets;
    const headers = await this.#headers();
    const counts = await this.#transport.dumpMany(
      nftMessageKind,
      headers.map(listElements),
      (messages) => messages.reduce((sum, body) => sum + countElements({ body }), 0),
    );
    const countByName = new Map(headers.map(({ name }, index) => [name, counts[index] ?? 0]));
    const sets = headers
      .filter((header) => header.layout !== "covered-nets")
      .map((header) => observedSet(header, countByName));
    if (generation !== undefined) this.#listed = { generation, sets };
    return sets;
  }

  async listEntries(set: IpSet): Promise<readonly SetEntry[]> {
    const [store, covered] = storesOf(set);
    const entries = await this.#entries(store);
    if (set.type !== "hash:ip,port,net") return entries;
    return [...entries, ...(await this.#entries(covered))];
  }

  async create(set: IpSet): Promise<void> {
    const present = (await this.#headers()).find(({ name }) => name === set.name);
    if (present === undefined) {
      return this.#transact([createTable(set.family), createSet(set, set.type, true)]);
    }
    if (present.family === set.family && present.layout === set.type) return;
    throw new NetlinkError({
      operation: "create set",
      subject: `${set.name} (${set.type})`,
      errno: errno.EEXIST,
      meaning: "a set with this name but a different type or family exists; destroy or rename it",
    });
  }

  async destroy(name: string): Promise<void> {
    const names = [name, coveredName(name)];
    const sets = (await this.#headers()).filter((set) => names.includes(set.name));
    try {
      await this.#transact(sets.map(deleteSet));
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  /** Rules refer to a set object, which cannot be renamed. The two sets therefore exchange their entries. */
  async swap(first: string, second: string): Promise<void> {
    const headers = await this.#headers();
    const [one, other] = [swappedSet(headers, first), swappedSet(headers, second)];
    if (one.type !== other.type || one.family !== other.family) {
      throw swapError(`${first} and ${second}`, errno.EINVAL);
    }
    const ofOne = new Set(await this.listEntries(one));
    const ofOther = new Set(await this.listEntries(other));
    const [failed] = await this.apply([
      ...changesBetween(one, ofOne, ofOther),
      ...changesBetween(other, ofOther, ofOne),
    ]);
    if (failed !== undefined) throw failed.error;
  }

  /** Sends all changes in one transaction. If the kernel rejects some of them, the others are resent without them. */
  async apply(changes: readonly EntryChange[]): Promise<readonly FailedChange[]> {
    const failed = new Map<number, Error>();
    const elements: ElementChange[] = [];
    const nets: PassedChange[] = [];
    for (const [index, change] of changes.entries()) {
      const { kind, set, entry } = change;
      if (set.type !== "hash:ip,port,net") {
        elements.push({ kind, set, entry, layout: set.type, indices: [index] });
        continue;
      }
      try {
        elementsOf(set.type, set.family, entry);
        nets.push({ ...change, index });
      } catch (error) {
        failed.set(index, invalidEntry(change, error));
      }
    }
    try {
      await this.#checkPlaces(nets);
      const groups = [...groupElements(elements), ...(await this.#netGroups(nets))];
      await this.#send(groups, failed);
    } catch (error) {
      this.#places.forget();
      throw error;
    }
    return [...failed]
      .map(([index, error]) => ({ index, error }))
      .sort((one, other) => one.index - other.index);
  }

  close(): void {
    this.#transport.close();
  }

  async #checkPlaces(nets: readonly PassedChange[]): Promise<void> {
    if (nets.length === 0 && this.#places.isEmpty) return;
    this.#places.checkGeneration(await readNftGeneration(this.#transport));
  }

  async #send(messages: readonly ElementGroup[], failed: Map<number, Error>): Promise<void> {
    let groups = messages;
    while (groups.length > 0) {
      const requests = groups.map(({ message }) => message);
      const rejected = await this.#transport.transaction(nftMessageKind, requests);
      if (rejected.length === 0) break;
      this.#places.forget();
      groups = withoutRejected(groups, rejected, ({ indices }, error) => {
        for (const index of indices) failed.set(index, error);
      });
    }
    if (this.#places.isEmpty) return;
    this.#places.advance(await readNftGeneration(this.#transport), messages.length === 0 ? 0 : 1);
  }

  async #netGroups(changes: readonly PassedChange[]): Promise<readonly ElementGroup[]> {
    const groups: ElementGroup[] = [];
    for (const ofSet of Map.groupBy(changes, ({ set }) => set.name).values()) {
      const [first] = ofSet;
      if (first === undefined) continue;
      const { name } = first.set;
      const [matched, covered] = storesOf(first.set);
      const before = await this.#places.placesOf(name, async () =>
        placesBefore(await this.#entries(matched), await this.#entries(covered)),
      );
      const { placed, after } = placeChanges(before, ofSet);
      this.#places.note(name, after);
      const elements = placed.map(({ kind, entry, place, indices }): ElementChange => {
        const set = place === "covered" ? covered : matched;
        return { kind, set, entry, layout: set.layout, indices };
      });
      if (elements.some(({ set }) => set.name === covered.name)) {
        groups.push({ message: createSet(covered, covered.layout, false), changes: [] });
      }
      groups.push(...groupElements(elements));
    }
    return groups;
  }

  async #entries(store: Store): Promise<readonly SetEntry[]> {
    const { layout, family } = store;
    try {
      const parts = await this.#transport.dump(nftMessageKind, listElements(store), decodeElements);
      return entriesOf(layout, family, parts.flat());
    } catch (error) {
      if (isNotFound(error)) return [];
      throw error;
    }
  }

  /** The sets of both tables; none if the tables do not exist. */
  async #headers(): Promise<readonly SetHeader[]> {
    const headers: SetHeader[] = [];
    for (const family of ipFamilies) {
      try {
        headers.push(
          ...(await this.#transport.dump(nftMessageKind, listSets(family), (message) =>
            decodeSet(family, message),
          )),
        );
      } catch (error) {
        if (!isNotFound(error)) throw error;
      }
    }
    return headers;
  }

  async #transact(messages: readonly NftMessage[]): Promise<void> {
    const [failed] = await this.#transport.transaction(nftMessageKind, messages);
    if (failed !== undefined) throw failed.error;
  }
}

/** A kernel set that contains entries of one of our sets. */
interface Store extends NftSet {
  readonly layout: Layout;
}

/** Networks that larger networks cover are in a separate set. */
function storesOf({ name, type, family }: IpSet): readonly [Store, Store] {
  return [
    { name, family, layout: type },
    { name: coveredName(name), family, layout: "covered-nets" },
  ];
}

function observedSet(header: SetHeader, counts: ReadonlyMap<string, number>): ObservedIpSet {
  const { name, family, layout, keyType, isInterval } = header;
  const type = layout ?? `nft set of key type ${keyType}`;
  return {
    name,
    type,
    ...(type === "bitmap:port" ? {} : { family }),
    // An interval consists of two elements.
    elementCount:
      Math.ceil((counts.get(name) ?? 0) / (isInterval ? 2 : 1)) +
      (counts.get(coveredName(name)) ?? 0),
  };
}

function swappedSet(headers: readonly SetHeader[], name: string): IpSet {
  const header = headers.find((one) => one.name === name);
  if (header === undefined) throw swapError(name, errno.ENOENT);
  const { layout } = header;
  if (layout === undefined || layout === "covered-nets") throw swapError(name, errno.EINVAL);
  return { name, type: layout, family: header.family, maxElements: 0 };
}

function swapError(subject: string, code: number): NetlinkError {
  const meaning =
    code === errno.ENOENT
      ? "the set does not exist"
      : "the sets are of different types or families, or of a type that kube-ipvs does not use";
  return new NetlinkError({ operation: "swap sets", subject, errno: code, meaning });
}

function changesBetween(
  set: IpSet,
  before: ReadonlySet<SetEntry>,
  after: ReadonlySet<SetEntry>,
): readonly EntryChange[] {
  const added = [...after].filter((entry) => !before.has(entry));
  const removed = [...before].filter((entry) => !after.has(entry));
  return [
    ...added.map((entry) => ({ kind: "entry-add" as const, set, entry })),
    ...removed.map((entry) => ({ kind: "entry-remove" as const, set, entry })),
  ];
}
