import { errno } from "../../base/errno.ts";
import { ipFamilies } from "../../base/ip.ts";
import { orElse } from "../../base/or-else.ts";
import { isNotFound, NetlinkError } from "../../netlink/errors.ts";
import { NetlinkTransport, type TransportDependencies } from "../../netlink/transport.ts";
import type { IpSet, ObservedIpSet } from "../../state/ip-set.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import type { EntryChange, FailedChange, IpSets } from "../kernel.ts";
import { type ElementGroup, groupElements, withoutRejected } from "./element-groups.ts";
import { readNftGeneration, readPortId } from "./generation.ts";
import { createTable, type NftMessage, nftMessageKind, nftTransportOptions } from "./message.ts";
import { entriesOf } from "./set-keys.ts";
import {
  countElements,
  createSet,
  decodeElements,
  decodeSet,
  deleteSet,
  listElements,
  listSets,
  type SetHeader,
} from "./set-messages.ts";

/**
 * Sets in our nf_tables tables, which only rules in these tables can use. As in ipset, names are unique across both
 * families. Sets have no maximum number of entries, because nf_tables cannot change a maximum while a rule refers to
 * the set. Networks of a set must not contain each other. Opens a socket; throws NetlinkError.
 */
export class NftSetsClient implements IpSets {
  readonly #transport: NetlinkTransport;
  /** All sets, as listed at this generation. */
  #listed: { readonly generation: number; readonly sets: readonly ObservedIpSet[] } | undefined;

  constructor(parts: TransportDependencies) {
    this.#transport = new NetlinkTransport(parts, nftTransportOptions);
  }

  readPortId(): Promise<number> {
    return readPortId(this.#transport);
  }

  /** The kernel does not report the number of elements, so this method counts them whenever a table has changed. */
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
    const sets = headers.map((header) => observedSet(header, countByName));
    if (generation !== undefined) this.#listed = { generation, sets };
    return sets;
  }

  async listEntries(set: IpSet): Promise<readonly SetEntry[]> {
    const parts = this.#transport.dump(nftMessageKind, listElements(set), decodeElements);
    return entriesOf(set.type, set.family, (await orElse(parts, isNotFound, [])).flat());
  }

  async create(set: IpSet): Promise<void> {
    const present = (await this.#headers()).find(({ name }) => name === set.name);
    if (present === undefined) {
      return this.#transact([createTable(set.family), createSet(set)]);
    }
    if (present.family === set.family && present.type === set.type) return;
    throw new NetlinkError({
      operation: "create set",
      subject: `${set.name} (${set.type})`,
      errno: errno.EEXIST,
      meaning: "a set with this name but a different type or family exists; destroy or rename it",
    });
  }

  async destroy(name: string): Promise<void> {
    const sets = (await this.#headers()).filter((set) => set.name === name);
    await orElse(this.#transact(sets.map(deleteSet)), isNotFound, undefined);
  }

  /** Never needed, because the sets have no parameters that a replacement could change. */
  async swap(first: string, second: string): Promise<void> {
    throw new NetlinkError({
      operation: "swap sets",
      subject: `${first} and ${second}`,
      errno: errno.EOPNOTSUPP,
      meaning: "nf_tables cannot rename a set that rules refer to",
    });
  }

  /**
   * Sends all changes in one transaction. If the kernel rejects some of them, the remaining changes are sent again.
   * Networks are removed before other networks are added, because the kernel rejects overlapping intervals.
   */
  async apply(changes: readonly EntryChange[]): Promise<readonly FailedChange[]> {
    const indexed = changes.map((change, index) => ({ ...change, index }));
    const isRemovedNet = ({ kind, set }: EntryChange): boolean =>
      kind === "entry-remove" && set.type === "hash:ip,port,net";
    const [removedNets, others] = [true, false].map((isFirst) =>
      indexed.filter((change) => isRemovedNet(change) === isFirst),
    );
    return this.#send(groupElements([...(removedNets ?? []), ...(others ?? [])]));
  }

  close(): void {
    this.#transport.close();
  }

  async #send(messages: readonly ElementGroup[]): Promise<readonly FailedChange[]> {
    const failed: FailedChange[] = [];
    let groups = messages;
    while (groups.length > 0) {
      const requests = groups.map(({ message }) => message);
      const rejected = await this.#transport.transaction(nftMessageKind, requests);
      if (rejected.length === 0) break;
      groups = withoutRejected(groups, rejected, ({ index }, error) =>
        failed.push({ index, error }),
      );
    }
    return failed.sort((one, other) => one.index - other.index);
  }

  /** The sets of both tables; none if the tables do not exist. */
  async #headers(): Promise<readonly SetHeader[]> {
    const headers: SetHeader[] = [];
    for (const family of ipFamilies) {
      const listed = this.#transport.dump(nftMessageKind, listSets(family), (message) =>
        decodeSet(family, message),
      );
      headers.push(...(await orElse(listed, isNotFound, [])));
    }
    return headers;
  }

  async #transact(messages: readonly NftMessage[]): Promise<void> {
    const [failed] = await this.#transport.transaction(nftMessageKind, messages);
    if (failed !== undefined) throw failed.error;
  }
}

function observedSet(header: SetHeader, counts: ReadonlyMap<string, number>): ObservedIpSet {
  const { name, family, keyType, isInterval, type = `nft set of key type ${keyType}` } = header;
  return {
    name,
    type,
    ...(type === "bitmap:port" ? {} : { family }),
    // An interval consists of two elements.
    elementCount: Math.ceil((counts.get(name) ?? 0) / (isInterval ? 2 : 1)),
  };
}
