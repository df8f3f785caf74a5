/** Implements `--cleanup` and `plan --cleanup`: removes or lists everything that is ours on this node. */
import { existsSync } from "node:fs";
import { apiVersion } from "../answer/answers.ts";
import { keptTexts, type Plan } from "../answer/plan.ts";
import { writerWords } from "../answer/writer-words.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import { ipFamilies } from "../base/ip.ts";
import type { Config } from "../config/config.ts";
import type { Kernel } from "../kernel/kernel.ts";
import { observeOnly } from "../kernel/observe-only.ts";
import type { ChangeKind } from "../reconcile/change.ts";
import { emptyPlan } from "../reconcile/change-plan.ts";
import {
  type CleanUpFailure,
  type CleanUpReport,
  cleanUp,
  type CleanUpContext as ReconcileContext,
  removeTunnelLinks,
} from "../reconcile/clean-up.ts";
import { planObject } from "../reconcile/plan-object.ts";
import { ownedBy } from "./leftovers/ipvs-leftovers.ts";
import { removeNftTables, tableOfIpvsMode, tableOfKubeProxy } from "./leftovers/nft-leftovers.ts";
import { mayBeInUse, type UnusedGoal, unusedGoals } from "./leftovers/remove-leftovers.ts";
import { rulesGoals } from "./leftovers/rule-leftovers.ts";
import type { Mode } from "./leftovers/rules-of-modes.ts";
import { type OtherProxy, proxyText } from "./node/other-proxy.ts";
import { removeLeftoverSocket } from "./operator/operator-socket.ts";
import { removeStateFile, statePaths } from "./process/state-file.ts";

export interface CleanUpContext {
  readonly clock?: Clock;
  /** The kube-proxy running on this node. Undefined if none was found. */
  readonly proxy?: OtherProxy | undefined;
}

/** The result of a clean-up: what it removed, or would remove in a dry run, and what it keeps. */
interface NodeCleanUp extends CleanUpReport {
  /** Rules in the unused iptables backend. They may refer to our ipsets. */
  readonly unused: Pick<CleanUpReport, "plan" | "changes"> & {
    readonly backends: readonly string[];
  };
  /** Tables of kube-proxy's nftables mode and of kube-ipvs, for example `ip kube-proxy`. */
  readonly nftTables: readonly string[];
  /**
   * Describes a kube-proxy that may be using the rules of its iptables or nftables mode. Undefined if there is none.
   */
  readonly kubeProxy?: string;
}

/** Cleans up and prints a line for each kind of object. Resolves with whether everything could be removed. */
export async function cleanUpAndPrint(
  kernel: Kernel,
  config: Config,
  print: (line: string) => void,
  context: CleanUpContext = {},
): Promise<boolean> {
  const done = await removeAll(kernel, config, { ...context, isDryRun: false });
  // After a failure, keep the state files: the next clean-up needs them to recognize our objects.
  const files = await removeFiles(done.failures.length === 0 ? recordPaths(config) : [], config);
  const failures = [...done.failures, ...files.failures];
  const { backend } = kernel.iptables;
  const removed = [
    ...removedWords(backend).map((words) => ({ ...words, count: countOf(done, words.kinds) })),
    ...unusedWords(done.unused).map((words) => ({
      ...words,
      count: countOf(done.unused, words.kinds),
    })),
    ...done.nftTables.map((table) => {
      const whose = table.endsWith(tableOfKubeProxy) ? "kube-proxy's nftables mode" : "kube-ipvs";
      return { count: 1, one: `nft table of ${whose}: ${table}`, many: "" };
    }),
    ...files.removed.map((path) => ({ count: 1, one: `file ${path}`, many: "" })),
  ].filter(({ count }) => count > 0);
  const lines = [
    ...(removed.length === 0 ? ["Found nothing left by kube-ipvs"] : removed.map(removedText)),
    ...keptTexts(done),
    ...failures.map(({ subject, error }) => `Could not remove ${subject}: ${errorText(error)}`),
  ];
  for (const line of lines) print(line);
  return failures.length === 0;
}

/** Returns what a clean-up would remove. Rejects if the kernel cannot be read. */
export async function planCleanUp(
  kernel: Kernel,
  config: Config,
  context: CleanUpContext = {},
): Promise<Plan> {
  const unchanged = { ...kernel, modules: observeOnly(kernel).modules };
  const planned = await removeAll(unchanged, config, { ...context, isDryRun: true });
  const [failure] = planned.failures;
  if (failure !== undefined) {
    const message = `Cannot plan the clean-up: ${failure.subject}: ${errorText(failure.error)}`;
    throw new Error(message, { cause: failure.error });
  }
  const files = [...recordPaths(config), config.operatorSocket].filter(existsSync);
  const { plan, kept, nftTables, unused, kubeProxy } = planned;
  return {
    ...{ apiVersion, kind: "Plan", ...planObject(plan) },
    ...{ kept, files, nftTables, iptablesBackend: kernel.iptables.backend },
    unusedBackend: { name: unused.backends.join(" and "), ...planObject(unused.plan) },
    ...(kubeProxy === undefined ? {} : { kubeProxy }),
  };
}

/** Reads ownership and supported families before the first write. Rejects if either cannot be read. */
async function removeAll(
  kernel: Kernel,
  config: Config,
  { clock = systemClock, proxy, isDryRun }: CleanUpContext & { readonly isDryRun: boolean },
): Promise<NodeCleanUp> {
  const user = userOfRules(config, proxy);
  const ours: readonly Mode[] = ["ipvs", "userspace"];
  const modes = user === undefined ? [...ours, "iptables" as const] : ours;
  const { iptables } = kernel;
  const ipvs = { ...(await ownedBy(kernel, config)), hasIpvs: await findIpvs(kernel) };
  const probes = await Promise.all(ipFamilies.map((family) => iptables.probe(family)));
  const families = ipFamilies.filter((_, index) => probes[index]?.isSupported);
  const others = await unusedGoals(kernel, config, { modes });
  const links = isDryRun ? [] : await removeTunnelLinks(kernel);
  const cleanUpOthers = (): ReturnType<typeof cleanUpUnused> =>
    cleanUpUnused({ clock, isDryRun }, others);
  const ofKubeProxy = user === undefined ? [tableOfKubeProxy] : [];
  const nft = await Promise.all(ofKubeProxy.map((name) => removeNftTables(kernel, name, isDryRun)));
  const rules = rulesGoals(families, { modes, current: undefined }, config, iptables);
  // With iptables, the other backend's rules are removed first, because they refer to the ipsets in use. With
  // nf_tables, the unused ipsets are removed last, because they identify virtual servers as ours.
  const first = iptables.backend === "nftables" ? undefined : await cleanUpOthers();
  const used = await cleanUp({ kernel, clock, isDryRun }, { rules, ipvs });
  const unused = first ?? (await cleanUpOthers());
  // Source ranges must apply as long as virtual servers exist.
  nft.push(await removeNftTables(kernel, tableOfIpvsMode, isDryRun));
  return {
    ...used,
    ...(user === undefined ? {} : { kubeProxy: user }),
    nftTables: nft.flatMap(({ removed }) => removed),
    unused,
    failures: [{ failures: links }, unused, ...nft, used].flatMap((one) => one.failures),
    kept: [...used.kept, ...unused.kept],
  };
}

/** Cleans up unused iptables backends, and ipset if sets are in nf_tables. */
async function cleanUpUnused(
  context: Omit<ReconcileContext, "kernel">,
  goals: readonly UnusedGoal[],
): Promise<NodeCleanUp["unused"] & CleanUpReport> {
  const reports: (CleanUpReport & { readonly backend: string })[] = [];
  for (const { backend, kernel, goal } of goals) {
    reports.push(inBackend(await cleanUp({ ...context, kernel }, goal), backend));
  }
  const changes = new Map<ChangeKind, number>();
  for (const report of reports) {
    for (const [kind, count] of report.changes) changes.set(kind, (changes.get(kind) ?? 0) + count);
  }
  return {
    plan: { ...emptyPlan, changes: reports.flatMap(({ plan }) => plan.changes) },
    changes,
    failures: reports.flatMap(({ failures }) => failures),
    kept: reports.flatMap(({ kept }) => kept),
    backends: reports.map(({ backend }) => backend),
  };
}

function inBackend(
  report: CleanUpReport,
  backend: string,
): CleanUpReport & { readonly backend: string } {
  const inUnused = <T extends { readonly subject: string }>(found: T): T => {
    return { ...found, subject: `${found.subject} in ${backend}` };
  };
  const { failures, kept } = report;
  return { ...report, backend, failures: failures.map(inUnused), kept: kept.map(inUnused) };
}

/** Paths of the state files, which are kept between runs. */
function recordPaths({ stateFile, claimsFile }: Config): readonly string[] {
  return [...statePaths(stateFile), claimsFile].filter((path) => path !== "");
}

/**
 * A kube-proxy in IPVS mode does not need iptables mode rules. If only a process was found, its mode is unknown, so its
 * rules are kept.
 */
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

/**
 * Removes the given state files and the operator socket of a daemon that was killed. A running daemon removes its own
 * socket when it stops.
 */
async function removeFiles(
  paths: readonly string[],
  { operatorSocket }: Config,
): Promise<{ readonly removed: readonly string[]; readonly failures: readonly CleanUpFailure[] }> {
  const removed: string[] = [];
  const failures: CleanUpFailure[] = [];
  for (const path of paths) {
    try {
      if (await removeStateFile(path)) removed.push(path);
    } catch (error) {
      failures.push({ subject: path, error });
    }
  }
  if (await removeLeftoverSocket(operatorSocket).catch(() => false)) {
    removed.push(operatorSocket);
  }
  return { removed, failures };
}

interface RemovedWords {
  readonly kinds: readonly ChangeKind[];
  readonly one: string;
  readonly many: string;
}

/** `backend` contained the removed rules and sets. */
function removedWords(backend: string): readonly RemovedWords[] {
  const { rules, set } = writerWords(backend);
  return [
    { kinds: ["virtual-server-remove"], one: "virtual server", many: "virtual servers" },
    ruleWords(rules),
    { kinds: ["link-remove"], one: "link kube-ipvs0 with its addresses", many: "links" },
    { kinds: ["set-destroy"], one: set, many: `${set}s` },
  ];
}

function unusedWords({ backends }: NodeCleanUp["unused"]): readonly RemovedWords[] {
  const ofRules = backends.filter((backend) => backend !== "ipset");
  const verb = ofRules.length > 1 ? "are" : "is";
  const where = `${ofRules.join(" and ")}, which ${verb} not in use`;
  const { kinds, one, many } = ruleWords("iptables");
  return [
    { kinds, one: `${one} from ${where}`, many: `${many} from ${where}` },
    {
      kinds: ["set-destroy"],
      one: "ipset, which is not in use",
      many: "ipsets, which are not in use",
    },
  ];
}

function ruleWords(writer: string): RemovedWords {
  const kinds = ["chain-remove", "jump-remove"] as const;
  return { kinds, one: `${writer} chain or jump`, many: `${writer} chains and jumps` };
}

function countOf(
  { changes }: Pick<CleanUpReport, "changes">,
  kinds: readonly ChangeKind[],
): number {
  return kinds.reduce((sum, kind) => sum + (changes.get(kind) ?? 0), 0);
}

function removedText({
  count,
  one,
  many,
}: Omit<RemovedWords, "kinds"> & { readonly count: number }): string {
  return `Removed ${String(count).padStart(5)} ${count === 1 ? one : many}`;
}
