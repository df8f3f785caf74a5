/** `--cleanup`: removes everything of ours from this node and says what it removed. */
import { errorText } from "../base/error-text.ts";
import { type IpFamily, ipFamilies } from "../base/ip.ts";
import type { Config } from "../config/config.ts";
import type { Kernel } from "../kernel/kernel.ts";
import { planRules } from "../plan/rules.ts";
import { observeAddresses } from "../reconcile/observe.ts";
import { type RemovalReport, removeAll } from "../reconcile/remove-all.ts";
import type { ChangeKind } from "../reconcile/report.ts";
import type { RuleSet } from "../state/rule.ts";
import { removeDrainAges } from "./drain-ages.ts";

/** Cleans up and prints a line for each kind of thing; resolves with whether everything could be removed. */
export async function cleanUp(
  kernel: Kernel,
  config: Config,
  print: (line: string) => void,
): Promise<boolean> {
  const report = await removeAll(kernel, {
    rules: await plannedRules(kernel, config),
    nodeAddresses: (await observeAddresses(kernel)).ofNode,
    ownership: {
      foreignVirtualServers: config.foreignVirtualServers,
      excludeCidrs: config.excludeCidrs,
    },
    hasIpvs: await findIpvs(kernel),
  });
  const file = await removeFile(config.drainAgesPath);
  for (const line of reportLines(report, file)) print(line);
  return report.failures.length === 0 && file.error === undefined;
}

interface FileRemoval {
  readonly path: string;
  readonly isRemoved: boolean;
  readonly error?: unknown;
}

/** The ages of drains: what drained is gone. */
async function removeFile(path: string): Promise<FileRemoval> {
  try {
    return { path, isRemoved: await removeDrainAges(path) };
  } catch (error) {
    return { path, isRemoved: false, error };
  }
}

/** Rules of an empty cluster name all our chains and jumps; families whose programs work. */
async function plannedRules(
  kernel: Kernel,
  config: Config,
): Promise<ReadonlyMap<IpFamily, RuleSet>> {
  const planned = new Map<IpFamily, RuleSet>();
  for (const family of ipFamilies) {
    const { isSupported } = await kernel.iptables.probe(family);
    if (!isSupported) continue;
    const empty = { filledSets: new Set<never>(), deniedToNode: [], localDetector: undefined };
    const { isMasqueradeAll, masqueradeMark } = config;
    planned.set(family, planRules({ family, ...empty, isMasqueradeAll, masqueradeMark }));
  }
  return planned;
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
  readonly kind: ChangeKind;
  readonly one: string;
  readonly many: string;
}

const removedWords: readonly RemovedWords[] = [
  { kind: "virtual-server-remove", one: "virtual server", many: "virtual servers" },
  { kind: "rules-remove", one: "iptables chain or jump", many: "iptables chains and jumps" },
  { kind: "link-remove", one: "link kube-ipvs0 with its addresses", many: "links" },
  { kind: "set-destroy", one: "ipset", many: "ipsets" },
];

function reportLines(
  { changes, kept, failures }: RemovalReport,
  file: FileRemoval,
): readonly string[] {
  const counted = [
    ...removedWords.map(({ kind, one, many }) => ({ count: changes.get(kind) ?? 0, one, many })),
    { count: file.isRemoved ? 1 : 0, one: `file ${file.path}`, many: "files" },
  ];
  const removed = counted
    .filter(({ count }) => count > 0)
    .map(
      ({ count, one, many }) => `Removed ${String(count).padStart(5)} ${count === 1 ? one : many}`,
    );
  const failed = file.error === undefined ? [] : [{ subject: file.path, error: file.error }];
  return [
    ...(removed.length === 0 ? ["Nothing of kube-ipvs was found"] : removed),
    ...kept.map(({ subject, reason }) => `Kept ${subject}: ${keptReasons[reason]}`),
    ...[...failures, ...failed].map(
      ({ subject, error }) => `Could not remove ${subject}: ${errorText(error)}`,
    ),
  ];
}

const keptReasons: Readonly<Record<RemovalReport["kept"][number]["reason"], string>> = {
  "referenced-by-others": "a rule that is not ours still uses it",
  "foreign-virtual-server": "it is not ours",
  "excluded-network": "excludeCIDRs names its network",
};
