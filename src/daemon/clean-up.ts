/** `--cleanup`: removes everything of ours from this node and says what it removed. */
import { type Clock, systemClock } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import type { IpFamily } from "../base/ip.ts";
import type { Config } from "../config/config.ts";
import type { Kernel } from "../kernel/kernel.ts";
import type { ChangeKind } from "../reconcile/change.ts";
import type { Kept } from "../reconcile/diff/plan-removal.ts";
import { type RemovalGoal, type RemovalReport, removeAll } from "../reconcile/remove-all.ts";
import type { RuleSet } from "../state/rule.ts";
import { rulesOfAnyMode, usableFamilies } from "./node/remove-rules.ts";
import { ownedBy } from "./node/tidy-ipvs.ts";
import { removeLeftoverSocket } from "./operator/operator-socket.ts";
import { removeStateFile, statePaths } from "./process/state-file.ts";

/** Cleans up and prints a line for each kind of thing; resolves with whether everything could be removed. */
export async function cleanUp(
  kernel: Kernel,
  config: Config,
  print: (line: string) => void,
  clock: Clock = systemClock,
): Promise<boolean> {
  const report = await removeAll(kernel, clock, await removalGoal(kernel, config));
  const isComplete = report.failures.length === 0;
  // The record says whose the rest is: it stays for the next time.
  const leftFiles = isComplete ? statePaths(config.statePath) : [];
  const files: FileRemoval[] = [];
  for (const path of leftFiles) files.push(await removeFile(path, removeStateFile));
  // That of a daemon that runs goes with it.
  const removeSocket = (path: string) => removeLeftoverSocket(path).catch(() => false);
  files.push(await removeFile(config.operatorSocketPath, removeSocket));
  for (const line of reportLines(report, files)) print(line);
  return isComplete && files.every(({ error }) => error === undefined);
}

/** What clean-up is about: everything of ours. */
export async function removalGoal(kernel: Kernel, config: Config): Promise<RemovalGoal> {
  const rules = await plannedRules(kernel, config);
  return { ...(await ownedBy(kernel, config)), rules, hasIpvs: await findIpvs(kernel) };
}

interface FileRemoval {
  readonly path: string;
  readonly isRemoved: boolean;
  readonly error?: unknown;
}

/** What they describe is gone. */
async function removeFile(
  path: string,
  remove: (path: string) => Promise<boolean>,
): Promise<FileRemoval> {
  try {
    return { path, isRemoved: await remove(path) };
  } catch (error) {
    return { path, isRemoved: false, error };
  }
}

/** All our chains and jumps, of families whose programs work. */
async function plannedRules(
  kernel: Kernel,
  config: Config,
): Promise<ReadonlyMap<IpFamily, RuleSet>> {
  const families = await usableFamilies(kernel.iptables);
  return new Map(families.map((family) => [family, rulesOfAnyMode(family, config)]));
}

async function findIpvs(kernel: Kernel): Promise<boolean> {
  if (kernel.modules.isAvailable("ip_vs") === true) return true;
  try {
    await kernel.modules.load("ip_vs");
    return true;
  } catch {
    return false;
  }
}

interface RemovedWords {
  readonly kinds: readonly ChangeKind[];
  readonly one: string;
  readonly many: string;
}

const removedWords: readonly RemovedWords[] = [
  { kinds: ["virtual-server-remove"], one: "virtual server", many: "virtual servers" },
  {
    kinds: ["chain-remove", "jump-remove"],
    one: "iptables chain or jump",
    many: "iptables chains and jumps",
  },
  { kinds: ["link-remove"], one: "link kube-ipvs0 with its addresses", many: "links" },
  { kinds: ["set-destroy"], one: "ipset", many: "ipsets" },
];

function reportLines(
  { changes, kept, failures }: RemovalReport,
  files: readonly FileRemoval[],
): readonly string[] {
  const sum = (kinds: readonly ChangeKind[]): number =>
    kinds.reduce((total, kind) => total + (changes.get(kind) ?? 0), 0);
  const counted = [
    ...removedWords.map(({ kinds, one, many }) => ({ count: sum(kinds), one, many })),
    ...files.map(({ path, isRemoved }) => {
      return { count: isRemoved ? 1 : 0, one: `file ${path}`, many: "files" };
    }),
  ];
  const removed = counted
    .filter(({ count }) => count > 0)
    .map(
      ({ count, one, many }) => `Removed ${String(count).padStart(5)} ${count === 1 ? one : many}`,
    );
  const failedFiles = files.flatMap(({ path: subject, error }) =>
    error === undefined ? [] : [{ subject, error }],
  );
  return [
    ...(removed.length === 0 ? ["Nothing of kube-ipvs was found"] : removed),
    ...kept.map(({ subject, reason }) => `Kept ${subject}: ${keptReasons[reason]}`),
    ...[...failures, ...failedFiles].map(
      ({ subject, error }) => `Could not remove ${subject}: ${errorText(error)}`,
    ),
  ];
}

/** In words. */
export const keptReasons: Readonly<Record<Kept["reason"], string>> = {
  "referenced-by-third-party": "a rule that is not ours still uses it",
  "foreign-virtual-server": "it is not ours",
  "possibly-owned": "it may be ours, but no set or record names it",
  "excluded-network": "excludeCIDRs names its network",
};
