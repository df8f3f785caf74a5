/** `--cleanup`: removes everything of ours from this node and says what it removed. */
import { type Clock, systemClock } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import { type IpFamily, ipFamilies } from "../base/ip.ts";
import type { Config } from "../config/config.ts";
import type { Kernel } from "../kernel/kernel.ts";
import type { ChangeKind } from "../reconcile/change.ts";
import type { Kept } from "../reconcile/plan-removal.ts";
import {
  applyRemoval,
  type PlannedRemoval,
  planRemovalFrom,
  type RulesGoal,
} from "../reconcile/remove-all.ts";
import { ownedBy } from "./leftovers/ipvs-leftovers.ts";
import { presentNftTables, removeNftTables } from "./leftovers/nft-leftovers.ts";
import { mayBeInUse } from "./leftovers/remove-leftovers.ts";
import {
  forEachFamily,
  type RuleLeftovers,
  type RulesFailure,
  rulesGoal,
} from "./leftovers/rule-leftovers.ts";
import type { Mode } from "./leftovers/rules-of-modes.ts";
import { type OtherProxy, proxyText } from "./node/other-proxy.ts";
import { removeLeftoverSocket } from "./operator/operator-socket.ts";
import { removeStateFile, statePaths } from "./process/state-file.ts";

/** What clean-up removes, and what it keeps. */
export interface CleanUpPlan {
  readonly removal: PlannedRemoval;
  /** Rules in the backend of iptables that is not in use. They refer to our sets. */
  readonly unused: readonly RuleLeftovers[];
  readonly unusedFailures: readonly RulesFailure[];
  /** Of kube-proxy's nftables mode: `ip kube-proxy`. */
  readonly nftTables: readonly string[];
  /** A kube-proxy that may use rules of iptables and nftables mode; undefined if there is none. */
  readonly user: string | undefined;
}

/** Plans towards nothing. `proxy` runs on this node. */
export async function planNodeCleanUp(
  kernel: Kernel,
  config: Config,
  { clock, proxy }: { readonly clock: Clock; readonly proxy: OtherProxy | undefined },
): Promise<CleanUpPlan> {
  const user = userOfRules(config, proxy);
  const ours: readonly Mode[] = ["ipvs", "userspace"];
  const modes = user === undefined ? [...ours, "iptables" as const] : ours;
  const leftovers = { modes, current: undefined };
  const { iptables, unusedBackend } = kernel;
  const rules = new Map<IpFamily, RulesGoal>();
  for (const family of ipFamilies) {
    const { isSupported } = await iptables.probe(family);
    if (isSupported) rules.set(family, rulesGoal(leftovers, family, config, iptables));
  }
  const goal = { ...(await ownedBy(kernel, config)), rules, hasIpvs: await findIpvs(kernel) };
  const unused: RuleLeftovers[] = [];
  const unusedFailures =
    unusedBackend === undefined
      ? []
      : await forEachFamily(unusedBackend, config, leftovers, (found) => void unused.push(found));
  return {
    removal: await planRemovalFrom(kernel, clock, goal),
    ...{ unused, unusedFailures, user },
    nftTables: user === undefined ? await presentNftTables(kernel) : [],
  };
}

/** Cleans up and prints a line for each kind of thing; resolves with whether everything could be removed. */
export async function cleanUp(
  kernel: Kernel,
  config: Config,
  print: (line: string) => void,
  {
    clock = systemClock,
    proxy,
  }: { readonly clock?: Clock; readonly proxy?: OtherProxy | undefined } = {},
): Promise<boolean> {
  const planned = await planNodeCleanUp(kernel, config, { clock, proxy });
  const unused = await removeUnused(kernel, planned);
  const nft = await removeNftTables(kernel, planned.nftTables);
  const removal = await applyRemoval(kernel, clock, planned.removal);
  const failures = [...unused.failures, ...nft.failures, ...removal.failures];
  // The records say whose the rest is: they stay for the next time.
  const files = await removeFiles(failures.length === 0 ? recordPaths(config) : [], config);
  const removed = [
    ...removedWords.map(({ kinds, ...words }) => {
      const count = kinds.reduce((sum, kind) => sum + (removal.changes.get(kind) ?? 0), 0);
      return { count, ...words };
    }),
    { count: unused.count, ...unusedWords(kernel) },
    ...nft.removed.map((table) => {
      return { count: 1, one: `nft table of kube-proxy's nftables mode: ${table}`, many: "" };
    }),
    ...files.removed.map((path) => ({ count: 1, one: `file ${path}`, many: "" })),
  ].filter(({ count }) => count > 0);
  const lines = [
    ...(removed.length === 0 ? ["Nothing of kube-ipvs was found"] : removed.map(removedText)),
    ...keptLines(planned, removal.kept),
    ...[...failures, ...files.failures].map(
      ({ subject, error }) => `Could not remove ${subject}: ${errorText(error)}`,
    ),
  ];
  for (const line of lines) print(line);
  return failures.length === 0 && files.failures.length === 0;
}

/** Files that carry something from run to run. */
export function recordPaths({ statePath, claimsPath }: Config): readonly string[] {
  return [...statePaths(statePath), claimsPath].filter((path) => path !== "");
}

/** What stays, and why. */
export function keptLines({ unused, user }: CleanUpPlan, kept: readonly Kept[]): readonly string[] {
  return [
    ...(user === undefined
      ? []
      : [`Kept rules of kube-proxy's iptables and nftables modes: ${user}`]),
    ...kept.map(({ subject, reason }) => `Kept ${subject}: ${keptReasons[reason]}`),
    ...unused.flatMap(({ backend, family, removal }) =>
      removal.kept.map(
        (chain) =>
          `Kept ${family} ${chain} in ${backend}: ${keptReasons["referenced-by-third-party"]}`,
      ),
    ),
  ];
}

const keptReasons: Readonly<Record<Kept["reason"], string>> = {
  "referenced-by-third-party": "a rule that is not ours still uses it",
  "foreign-virtual-server": "it is not ours",
  "possibly-owned": "it may be ours, but no set or record names it",
  "excluded-network": "excludeCIDRs names its network",
};

/** It works on without our rules, not without its own. Of a process the mode is unknown. */
function userOfRules(config: Config, proxy: OtherProxy | undefined): string | undefined {
  if (proxy !== undefined && !(proxy.kind === "port" && proxy.mode === "ipvs")) {
    return proxyText(proxy);
  }
  return mayBeInUse(config) ? "kube-proxy may be running" : undefined;
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

interface Failure {
  readonly subject: string;
  readonly error: unknown;
}

async function removeUnused(
  { unusedBackend }: Kernel,
  { unused, unusedFailures }: CleanUpPlan,
): Promise<{ readonly count: number; readonly failures: readonly Failure[] }> {
  let count = 0;
  const failed: RulesFailure[] = [...unusedFailures];
  for (const { backend, family, removal } of unused) {
    try {
      if (removal.changes.length > 0) await unusedBackend?.apply(family, removal.changes);
      count += removal.changes.length;
    } catch (error) {
      failed.push({ backend, family, error });
    }
  }
  const failures = failed.map(({ backend, family, error }) => {
    return { subject: `rules of ${family} from ${backend}`, error };
  });
  return { count, failures };
}

/** What the files describe is gone. The socket of a running daemon ends with it. */
async function removeFiles(
  paths: readonly string[],
  { operatorSocketPath }: Config,
): Promise<{ readonly removed: readonly string[]; readonly failures: readonly Failure[] }> {
  const removed: string[] = [];
  const failures: Failure[] = [];
  for (const path of paths) {
    try {
      if (await removeStateFile(path)) removed.push(path);
    } catch (error) {
      failures.push({ subject: path, error });
    }
  }
  if (await removeLeftoverSocket(operatorSocketPath).catch(() => false)) {
    removed.push(operatorSocketPath);
  }
  return { removed, failures };
}

interface RemovedWords {
  readonly one: string;
  readonly many: string;
}

const removedWords: readonly (RemovedWords & { readonly kinds: readonly ChangeKind[] })[] = [
  { kinds: ["virtual-server-remove"], one: "virtual server", many: "virtual servers" },
  {
    kinds: ["chain-remove", "jump-remove"],
    one: "iptables chain or jump",
    many: "iptables chains and jumps",
  },
  { kinds: ["link-remove"], one: "link kube-ipvs0 with its addresses", many: "links" },
  { kinds: ["set-destroy"], one: "ipset", many: "ipsets" },
];

function unusedWords({ unusedBackend }: Kernel): RemovedWords {
  const where = `from ${unusedBackend?.backend ?? ""}, which is not in use`;
  return { one: `iptables chain or jump ${where}`, many: `iptables chains and jumps ${where}` };
}

function removedText({ count, one, many }: RemovedWords & { readonly count: number }): string {
  return `Removed ${String(count).padStart(5)} ${count === 1 ? one : many}`;
}
