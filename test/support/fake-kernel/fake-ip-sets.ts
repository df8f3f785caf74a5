import { errno } from "../../../src/base/errno.ts";
import { familyOf } from "../../../src/base/ip.ts";
import { ipSetErrorWords } from "../../../src/kernel/ipset/errors.ts";
import type { EntryChange, FailedChange, IpSets } from "../../../src/kernel/kernel.ts";
import { NetlinkError } from "../../../src/netlink/errors.ts";
import {
  type IpSet,
  type IpSetType,
  type ObservedIpSet,
  sameIpSet,
} from "../../../src/state/ip-set.ts";
import {
  type SetEntry,
  type SetEntryFields,
  setEntryFields,
} from "../../../src/state/set-entry.ts";
import { actionWords, type Operation, type Operations } from "./operations.ts";

interface HeldSet {
  readonly set: IpSet;
  readonly entries: Set<SetEntry>;
  readonly hasOptions?: true;
}

/** IPSET_MAXNAMELEN less the terminator. */
const maxNameBytes = 31;

/** The parts of each type's entries, named as in {@link SetEntryFields}. */
const partsOfType: Readonly<Record<IpSetType, readonly (keyof SetEntryFields)[]>> = {
  "hash:ip": ["address"],
  "hash:ip,port": ["address", "protocol", "port"],
  "hash:ip,port,ip": ["address", "protocol", "port", "second"],
  "hash:ip,port,net": ["address", "protocol", "port", "second"],
  "bitmap:port": ["port"],
};

/** ipset with the kernel's rules: net/netfilter/ipset/ip_set_core.c. */
export class FakeIpSets implements IpSets {
  readonly #operations: Operations;
  readonly #referencesOf: (name: string) => number;
  readonly #held = new Map<string, HeldSet>();

  constructor(operations: Operations, referencesOf: (name: string) => number) {
    this.#operations = operations;
    this.#referencesOf = referencesOf;
  }

  /** Returns names, parameters and entries, without delay or injected failures. */
  peek(): readonly { readonly set: IpSet; readonly entries: readonly SetEntry[] }[] {
    return [...this.#held.values()].map(({ set, entries }) => ({ set, entries: [...entries] }));
  }

  has(name: string): boolean {
    return this.#held.has(name);
  }

  /** Replaces a set with one that has these entries, as another program would. */
  put(set: IpSet, entries: readonly string[] = [], options: { hasOptions?: true } = {}): void {
    this.#held.set(set.name, { set, entries: new Set(entries as SetEntry[]), ...options });
  }

  /** Deletes a set, as another program would. */
  lose(name: string): void {
    this.#held.delete(name);
  }

  /**
   * Changes an entry as another program would: the change is not logged, and injected failures do not apply. Throws if
   * the kernel would reject the change.
   */
  interfere(change: EntryChange): void {
    this.#carryOut(change);
  }

  /** Empties one set, or all of them, as `ipset flush` does. */
  flush(name?: string): void {
    for (const [held, { entries }] of this.#held) {
      if (name === undefined || name === held) entries.clear();
    }
  }

  async listSets(): Promise<readonly ObservedIpSet[]> {
    return this.#operations.read("ipset", "list-sets", "", () =>
      [...this.#held.values()].map((held) => this.#observed(held)),
    );
  }

  async listEntries(set: IpSet): Promise<readonly SetEntry[]> {
    return this.#operations.read("ipset", "list-entries", set.name, () => [
      ...(this.#held.get(set.name)?.entries ?? []),
    ]);
  }

  /** Undefined for a set with options, as the real client answers for a set with a mask. */
  async listOtherEntries({
    name,
  }: Pick<ObservedIpSet, "name">): Promise<readonly string[] | undefined> {
    const held = this.#held.get(name);
    return held === undefined || held.hasOptions === true ? undefined : [...held.entries];
  }

  async create(set: IpSet): Promise<void> {
    const operation: Operation = { facility: "ipset", action: "create-set", subject: set.name };
    this.#operations.change(operation, () => {
      if (set.name.length > maxNameBytes) throw setError(operation, errno.EINVAL, set.type);
      const held = this.#held.get(set.name);
      if (held === undefined) this.#held.set(set.name, { set, entries: new Set() });
      else if (!sameIpSet(set, this.#observed(held))) {
        throw setError(operation, errno.EEXIST, set.type);
      }
    });
  }

  async destroy(name: string): Promise<void> {
    const operation: Operation = { facility: "ipset", action: "destroy-set", subject: name };
    this.#operations.change(operation, () => {
      if (this.#referencesOf(name) > 0) throw setError(operation, 4100, "");
      this.#held.delete(name);
    });
  }

  async swap(first: string, second: string): Promise<void> {
    const subject = `${first} ${second}`;
    const operation: Operation = { facility: "ipset", action: "swap-sets", subject };
    this.#operations.change(operation, () => {
      const one = this.#held.get(first);
      const other = this.#held.get(second);
      if (one === undefined) throw setError(operation, errno.ENOENT, "");
      if (other === undefined) throw setError(operation, 4101, "");
      if (!areSwappable(one.set, other.set)) throw setError(operation, 4102, "");
      this.#held.set(first, { ...other, set: { ...other.set, name: first } });
      this.#held.set(second, { ...one, set: { ...one.set, name: second } });
    });
  }

  async apply(changes: readonly EntryChange[]): Promise<readonly FailedChange[]> {
    return this.#operations.changes(changes, setOperation, (change) => this.#carryOut(change));
  }

  #carryOut(change: EntryChange): void {
    const operation = setOperation(change);
    checkForm(operation, change.set.type, change.entry);
    const held = this.#held.get(change.set.name);
    if (held === undefined) {
      if (change.kind === "entry-remove") return;
      throw setError(operation, errno.ENOENT, change.set.type);
    }
    checkFamily(operation, held.set, change.entry);
    if (change.kind === "entry-remove") {
      held.entries.delete(change.entry);
      return;
    }
    const isFull = held.entries.size >= held.set.maxElements && held.set.type !== "bitmap:port";
    if (isFull && !held.entries.has(change.entry)) throw setError(operation, 4352, held.set.type);
    held.entries.add(change.entry);
  }

  #observed({ set, entries, hasOptions }: HeldSet): ObservedIpSet {
    const { name, type, family, maxElements } = set;
    return {
      name,
      type,
      ...(type === "bitmap:port" ? {} : { family }),
      maxElements,
      references: this.#referencesOf(name),
      elementCount: entries.size,
      ...(hasOptions === true ? { hasOptions } : {}),
    };
  }
}

function areSwappable(one: IpSet, other: IpSet): boolean {
  return one.type === other.type && (one.type === "bitmap:port" || one.family === other.family);
}

/** Rejects the same entries as the real client, which checks them before it sends a request. */
function checkForm(operation: Operation, type: IpSetType, entry: SetEntry): void {
  const parts = setEntryFields(entry);
  const wanted = partsOfType[type];
  const isComplete =
    Object.keys(parts).length === wanted.length && wanted.every((part) => part in parts);
  if (!isComplete || (parts.port ?? 0) > 65_535) throw setError(operation, errno.EINVAL, type);
}

function checkFamily(operation: Operation, set: IpSet, entry: SetEntry): void {
  const { address, second } = setEntryFields(entry);
  const addresses = [address, second?.address].filter((one) => one !== undefined);
  if (addresses.some((one) => familyOf(one) !== set.family)) {
    throw setError(operation, 4097, set.type);
  }
}

function setOperation({ kind, set, entry }: EntryChange): Operation {
  return { facility: "ipset", action: kind, subject: `${set.name} ${entry}` };
}

function setError(operation: Operation, errorNumber: number, type: string): NetlinkError {
  return new NetlinkError({
    operation: actionWords(operation.action),
    subject: operation.subject,
    errno: errorNumber,
    ...ipSetErrorWords(errorNumber, type),
  });
}
