/** Sends rule changes with iptables-restore. */
import type { FailedChange, Iptables } from "../../kernel/kernel.ts";
import { type ChainKey, chainKey } from "../../state/rule.ts";
import type { FamilyRuleChange } from "../change.ts";

/** Maximum number of rejected restores. Finding one rejected rule among thousands takes about 12 restores. */
const mostRejections = 100;

/**
 * Sends rules with one restore. If the kernel rejects it, sends ever smaller halves of the changes until only the
 * faulty changes are rejected.
 */
export async function sendRules(
  changes: readonly FamilyRuleChange[],
  iptables: Pick<Iptables, "apply">,
): Promise<readonly FailedChange[]> {
  const error = await restoreRules(changes, iptables);
  if (error === undefined) return [];
  if (changes.length === 1) return [{ index: 0, error }];
  const restore = (part: readonly Alone[]): Promise<Error | undefined> =>
    restoreRules(
      part.flatMap(({ parts }) => parts),
      iptables,
    );
  const rejected = await findRejected(oneByOne(changes), error, mostRejections, restore);
  return rejected.flatMap(({ item, error }) => item.indexes.map((index) => ({ index, error })));
}

/**
 * Attempts the halves of a list that was rejected with `error`, then the halves of each rejected half, and so on. After
 * `most` rejections, everything that was not attempted is treated as rejected. Returns the rejected items, each with
 * its error.
 */
export async function findRejected<T>(
  items: readonly T[],
  error: Error,
  most: number,
  attempt: (part: readonly T[]) => Promise<Error | undefined>,
): Promise<readonly { readonly item: T; readonly error: Error }[]> {
  const found: { readonly item: T; readonly error: Error }[] = [];
  let rejections = 1;
  const pending = halvesOf(items);
  for (let part = pending.shift(); part !== undefined; part = pending.shift()) {
    const rejection = rejections < most ? await attempt(part) : error;
    if (rejection === undefined) continue;
    rejections += 1;
    if (part.length > 1 && rejections < most) pending.unshift(...halvesOf(part));
    else found.push(...part.map((item) => ({ item, error: rejection })));
  }
  return found;
}

function halvesOf<T>(items: readonly T[]): (readonly T[])[] {
  const middle = Math.ceil(items.length / 2);
  return [items.slice(0, middle), items.slice(middle)].filter(({ length }) => length > 0);
}

/** One restore, and its changes' indices in the plan. */
interface Alone {
  readonly indexes: readonly number[];
  readonly parts: readonly FamilyRuleChange[];
}

/**
 * Splits changes into restores that can run separately, and orders them: chain writes (target chains first), then
 * jumps, then chain removals. The restore of an inserted jump first removes that jump. Therefore a jump that moves is
 * never missing, and a jump is not duplicated if the rejected restore had already committed its table.
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
  const add = (place: ChainKey | ""): void => {
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

function placeWritten(change: FamilyRuleChange | undefined): ChainKey | "" {
  return change?.kind === "chain-write" ? chainKey(change.chain.table, change.chain.name) : "";
}

/** Runs one restore. Resolves with the error if it was rejected. Rejects if the outcome is unknown. */
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

/**
 * True if the program ran and failed, or if nf_tables rejected a message. The outcome is unknown if the program did not
 * run, if another program held the lock, or if the nf_tables reply was lost.
 */
function isRefusal(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  if ("exitCode" in error) return !isLockHeld(error);
  return "isRejection" in error && error.isRejection === true;
}

function isLockHeld(error: Error): boolean {
  return "isBusy" in error && error.isBusy === true;
}
