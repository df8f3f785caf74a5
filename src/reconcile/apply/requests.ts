/** Changes as requests of the kernel's clients. Each function resolves with what was refused; a rejection: nothing is known. */
import type {
  AddressChange,
  EntryChange,
  FailedChange,
  Iptables,
  IpvsChange,
  Kernel,
} from "../../kernel/kernel.ts";
import { chainKey } from "../../state/rule.ts";
import type { Change, ChangeKind, ChangeOf, FamilyRuleChange } from "../change.ts";
import { isLimitSet } from "../limits.ts";
import type { ObservedPart } from "../observed/observer.ts";

/** Facilities of the kernel that take several changes at once; changes of one group are sent together. */
export type ChangeGroup =
  | "virtual-servers"
  | "real-servers"
  | "entries"
  | "addresses"
  /** Of one family. */
  | "rules"
  | "conntrack"
  /** Each on its own. */
  | "single";

interface KindRow {
  readonly group: ChangeGroup;
  /** Which part of the cache a change of this kind is in; absent: nothing is cached of it. */
  readonly part?: ObservedPart;
}

const virtualServers: KindRow = { group: "virtual-servers", part: "servers" };
/** Real servers go into virtual servers that must be new only once it is clear that they are. */
const realServers: KindRow = { group: "real-servers", part: "servers" };
const set: KindRow = { group: "single", part: "sets" };
const link: KindRow = { group: "single", part: "link" };
const rules: KindRow = { group: "rules", part: "rules" };

export const kinds: Readonly<Record<ChangeKind, KindRow>> = {
  "module-load": { group: "single" },
  "sysctl-write": { group: "single", part: "sysctls" },
  "link-create": link,
  "link-remove": link,
  "set-create": set,
  "set-swap": set,
  "set-destroy": set,
  "entry-add": { group: "entries", part: "sets" },
  "entry-remove": { group: "entries", part: "sets" },
  "chain-write": rules,
  "chain-remove": rules,
  "jump-insert": rules,
  "jump-remove": rules,
  "virtual-server-create": virtualServers,
  "virtual-server-update": virtualServers,
  "virtual-server-remove": virtualServers,
  "real-server-create": realServers,
  "real-server-update": realServers,
  "real-server-remove": realServers,
  "address-add": { group: "addresses", part: "link" },
  "address-remove": { group: "addresses", part: "link" },
  "conntrack-delete": { group: "conntrack" },
};

/** Whether a change may be sent together with the one before it. */
export function goTogether(before: Change, change: Change): boolean {
  const { group } = kinds[before.kind];
  if (group === "single" || kinds[change.kind].group !== group) return false;
  // What restricts has requests of its own: what depends on it waits for their outcome.
  if ("entry" in before && "entry" in change) {
    return isLimitSet(before.set.name) === isLimitSet(change.set.name);
  }
  if (!("family" in before && "family" in change)) return true;
  return before.family === change.family;
}

/** Sends changes of one group. Refused ones by their index. */
export function sendGroup(
  group: Exclude<ChangeGroup, "conntrack" | "single">,
  changes: readonly Change[],
  kernel: Kernel,
): Promise<readonly FailedChange[]> {
  switch (group) {
    case "virtual-servers":
    case "real-servers":
      return kernel.ipvs.apply(changes as readonly IpvsChange[]);
    case "entries":
      return kernel.ipSets.apply(changes as readonly EntryChange[]);
    case "addresses":
      return kernel.link.apply(changes as readonly AddressChange[]);
    case "rules":
      return sendRules(changes as readonly FamilyRuleChange[], kernel);
  }
}

/** Sends one change that has a request of its own. Rejects when it is refused. */
export async function sendSingle(
  change: ChangeOf<
    | "module-load"
    | "sysctl-write"
    | "link-create"
    | "link-remove"
    | "set-create"
    | "set-swap"
    | "set-destroy"
  >,
  { modules, sysctl, link, ipSets }: Kernel,
): Promise<void> {
  switch (change.kind) {
    case "module-load":
      return modules.load(change.module);
    case "sysctl-write":
      sysctl.ensure(change.path, change.after);
      return;
    case "link-create":
      await link.ensure();
      return;
    case "link-remove":
      return link.remove();
    case "set-create":
      return ipSets.create(change.set);
    case "set-swap":
      return ipSets.swap(change.set.name, change.temporary.name);
    case "set-destroy":
      return ipSets.destroy(change.setName);
  }
}

/** So many rejected runs of iptables-restore are enough: one rejected rule among thousands takes about a dozen. */
const mostRejections = 100;

/**
 * Sends rules by one restore, which is a transaction. If it is rejected, its halves are sent, and so on: in the end only the
 * changes at fault are rejected.
 */
export async function sendRules(
  changes: readonly FamilyRuleChange[],
  { iptables }: { readonly iptables: Pick<Iptables, "apply"> },
): Promise<readonly FailedChange[]> {
  const error = await restoreRules(changes, iptables);
  if (error === undefined) return [];
  if (changes.length === 1) return [{ index: 0, error }];
  const failed: FailedChange[] = [];
  let rejections = 1;
  const pending = halvesOf(oneByOne(changes));
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    const rejected =
      rejections < mostRejections
        ? await restoreRules(
            next.flatMap(({ parts }) => parts),
            iptables,
          )
        : error;
    if (rejected === undefined) continue;
    rejections += 1;
    if (next.length > 1 && rejections < mostRejections) pending.unshift(...halvesOf(next));
    else
      failed.push(
        ...next.flatMap(({ indexes }) => indexes.map((index) => ({ index, error: rejected }))),
      );
  }
  return failed;
}

function halvesOf(restores: readonly Alone[]): (readonly Alone[])[] {
  const middle = Math.ceil(restores.length / 2);
  return [restores.slice(0, middle), restores.slice(middle)].filter(({ length }) => length > 0);
}

/** One restore, and the places in the plan of what it makes. */
interface Alone {
  readonly indexes: readonly number[];
  readonly parts: readonly FamilyRuleChange[];
}

/**
 * Restores of one change each, in an order in which each can be made alone: chains after those that they jump to, then
 * jumps, then removals of chains. A jump is taken out and put in by one restore, so it is never missing in between; the
 * transaction may have been committed for the tables before the one that was rejected.
 */
function oneByOne(changes: readonly FamilyRuleChange[]): readonly Alone[] {
  const indexed = changes.map((change, index) => ({ change, index }));
  const alone = (kind: FamilyRuleChange["kind"]): readonly Alone[] =>
    indexed.flatMap(({ change, index }) =>
      change.kind === kind ? [{ indexes: [index], parts: [change] }] : [],
    );
  const moved = new Set(changes.flatMap((one) => (one.kind === "jump-insert" ? [one.jump] : [])));
  const jumps = indexed.flatMap(({ change, index }): readonly Alone[] => {
    if (change.kind === "jump-remove" && !moved.has(change.jump)) {
      return [{ indexes: [index], parts: [change] }];
    }
    if (change.kind !== "jump-insert") return [];
    const { jump } = change;
    const indexes = indexed.flatMap((one) =>
      "jump" in one.change && one.change.jump === jump ? [one.index] : [],
    );
    return [{ indexes, parts: [{ ...change, kind: "jump-remove" }, change] }];
  });
  return [...targetsFirst(alone("chain-write")), ...jumps, ...alone("chain-remove")];
}

function targetsFirst(writes: readonly Alone[]): readonly Alone[] {
  const left = new Map(writes.map((write) => [placeWritten(write.parts[0]), write] as const));
  const ordered: Alone[] = [];
  const add = (place: string): void => {
    const write = left.get(place);
    const change = write?.parts[0];
    if (write === undefined || change?.kind !== "chain-write") return;
    left.delete(place);
    for (const { target } of change.chain.rules) {
      if (target.kind === "jump") add(chainKey(change.chain.table, target.chain));
    }
    ordered.push(write);
  };
  for (const place of [...left.keys()]) add(place);
  return ordered;
}

function placeWritten(change: FamilyRuleChange | undefined): string {
  return change?.kind === "chain-write" ? chainKey(change.chain.table, change.chain.name) : "";
}

/** One restore. Resolves with the rejection; rejects if the outcome is unknown. */
export async function restoreRules(
  changes: readonly FamilyRuleChange[],
  iptables: Pick<Iptables, "apply">,
): Promise<Error | undefined> {
  const [first] = changes;
  if (first === undefined) return undefined;
  try {
    await iptables.apply(first.family, changes);
    return undefined;
  } catch (error) {
    if (isRefusal(error)) return error;
    throw error;
  }
}

/** The program ran to its end and said no; where it did not run, or another one held the lock, nothing is known. */
function isRefusal(error: unknown): error is Error {
  return error instanceof Error && "exitCode" in error && !isLockHeld(error);
}

function isLockHeld(error: Error): boolean {
  return "isBusy" in error && error.isBusy === true;
}
