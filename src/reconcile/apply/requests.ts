/** Changes as requests of the kernel's clients. Each function resolves with what was refused; a rejection: nothing is known. */
import type {
  AddressChange,
  EntryChange,
  FailedChange,
  Iptables,
  IpvsChange,
  Kernel,
  RuleChange,
} from "../../kernel/kernel.ts";
import type { Change, ChangeOf, FamilyRuleChange } from "../change.ts";

/** Facilities of the kernel that take several changes at once; changes of one group are sent together. */
export type ChangeGroup =
  | "virtual-servers"
  | "real-servers"
  | "entries"
  | "addresses"
  | "rules-IPv4"
  | "rules-IPv6"
  | "conntrack"
  /** Each on its own. */
  | "single";

export function groupOf(change: Change): ChangeGroup {
  switch (change.kind) {
    case "virtual-server-create":
    case "virtual-server-update":
    case "virtual-server-remove":
      return "virtual-servers";
    // Real servers go into virtual servers that must be new only once it is clear that they are.
    case "real-server-create":
    case "real-server-update":
    case "real-server-remove":
      return "real-servers";
    case "entry-add":
    case "entry-remove":
      return "entries";
    case "address-add":
    case "address-remove":
      return "addresses";
    case "chain-write":
    case "chain-remove":
    case "jump-insert":
    case "jump-remove":
      return `rules-${change.family}`;
    case "conntrack-delete":
      return "conntrack";
    default:
      return "single";
  }
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
    case "rules-IPv4":
    case "rules-IPv6":
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

/** One restore is a transaction: it is refused as a whole, and then one by one, so that only what is at fault is refused. */
async function sendRules(
  changes: readonly FamilyRuleChange[],
  { iptables }: Kernel,
): Promise<readonly FailedChange[]> {
  const [first] = changes;
  if (first === undefined) return [];
  try {
    await iptables.apply(first.family, changes);
    return [];
  } catch (error) {
    if (!isRefusal(error)) throw error;
    if (changes.length === 1) return [{ index: 0, error }];
  }
  const failed: FailedChange[] = [];
  for (const [index, change] of changes.entries()) {
    const error = await sendOneRule(change, iptables);
    if (error !== undefined) failed.push({ index, error });
  }
  return failed;
}

/** The transaction may have been committed for the table before the one that was refused: a jump is not inserted twice. */
async function sendOneRule(
  change: FamilyRuleChange,
  iptables: Iptables,
): Promise<Error | undefined> {
  const isInsert = change.kind === "jump-insert";
  const removal: RuleChange[] = isInsert ? [{ kind: "jump-remove", jump: change.jump }] : [];
  try {
    await iptables.apply(change.family, [...removal, change]);
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
