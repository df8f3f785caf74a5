/** What kube-proxy left on this node in its modes iptables and nftables, which it does not take along. */
import { errorText } from "../../base/error-text.ts";
import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { IptablesModeRules, Kernel } from "../../kernel/kernel.ts";
import { planEmptyRules } from "../../plan/rules.ts";
import { type OtherProxy, proxyText } from "./other-proxy.ts";

type Tables = Pick<Kernel, "iptablesMode" | "nftTables">;

/** kube-proxy's only table, in the families ip and ip6. */
const nftTableName = "kube-proxy";

/** How many chains a log line names. */
const namedChains = 5;

/** What came of a removal. */
export interface OtherModesReport {
  /** `ip kube-proxy` */
  readonly nftTables: readonly string[];
  readonly iptables: readonly {
    readonly backend: IptablesModeRules["backend"];
    /** Chains, and rules that led to them. */
    readonly removedCount: number;
  }[];
  /** Chains that rules of other programs lead to: `IPv4 nat KUBE-SVC-… in legacy`. */
  readonly kept: readonly string[];
  readonly failures: readonly { readonly subject: string; readonly error: unknown }[];
}

/** Whether a kube-proxy may be using them at the same time, in another mode than ours. */
export function mayBeInUse({
  isOtherProxyAllowed,
  serviceProxyName,
}: Pick<Config, "isOtherProxyAllowed" | "serviceProxyName">): boolean {
  return isOtherProxyAllowed || serviceProxyName !== undefined;
}

/** Names the chains of mode iptables in one line, and what removes them. */
export function reportLeftoverChains(
  { iptablesMode = [] }: Tables,
  config: Config,
  { log, ranIptables }: { readonly log: Logger; readonly ranIptables: boolean },
): void {
  if (config.isLeftoverRemoved || ranIptables || mayBeInUse(config)) return;
  const found = iptablesMode.flatMap(({ found }) => [...found]);
  const chains = found.flatMap(([, names]) => names);
  if (chains.length === 0) return;
  log.warn("Found rules of kube-proxy's iptables mode", {
    backends: iptablesMode.map(({ backend }) => backend),
    ipFamilies: ipFamilies.filter((family) => found.some(([one]) => one === family)),
    chainCount: chains.length,
    chains: chains.slice(0, namedChains),
    effect: "Services that had no endpoints when the mode changed may still be refused",
    advice:
      "Set kubeIpvs.removeLeftovers: true, or stop kube-ipvs and run on this node: kube-ipvs --cleanup",
  });
}

/** As kube-proxy does when it starts in mode ipvs. Never rejects. */
async function removeNftTables({ nftTables }: Tables): Promise<OtherModesReport> {
  const removed: string[] = [];
  const failures: { subject: string; error: unknown }[] = [];
  for (const family of nftTables === undefined ? [] : ipFamilies) {
    const subject = nftTableText(family);
    try {
      if (!(await nftTables?.has(family, nftTableName))) continue;
      await nftTables?.remove(family, nftTableName);
      removed.push(subject);
    } catch (error) {
      failures.push({ subject: `nft table ${subject}`, error });
    }
  }
  return { nftTables: removed, iptables: [], kept: [], failures };
}

/** `ip kube-proxy`. Rejects where that cannot be read. */
export async function presentNftTables({
  nftTables,
}: Pick<Kernel, "nftTables">): Promise<readonly string[]> {
  const present: string[] = [];
  for (const family of nftTables === undefined ? [] : ipFamilies) {
    if (await nftTables?.has(family, nftTableName)) present.push(nftTableText(family));
  }
  return present;
}

function nftTableText(family: IpFamily): string {
  return `${family === "IPv4" ? "ip" : "ip6"} ${nftTableName}`;
}

/** Chains of ours, which mode iptables makes too, are emptied only where they are `removedNext`. Never rejects. */
async function removeIptablesMode(
  { iptablesMode = [] }: Tables,
  config: Config,
  removedNext: (backend: IptablesModeRules["backend"]) => boolean,
): Promise<OtherModesReport> {
  const iptables: { backend: IptablesModeRules["backend"]; removedCount: number }[] = [];
  const kept: string[] = [];
  const failures: { subject: string; error: unknown }[] = [];
  for (const rules of iptablesMode) {
    const { backend } = rules;
    let removedCount = 0;
    for (const family of rules.found.keys()) {
      try {
        const emptied = removedNext(backend) ? ourChains(family, config) : new Set<string>();
        const removal = await rules.remove(family, emptied);
        removedCount += removal.removedCount;
        kept.push(...removal.kept.map((chain) => `${family} ${chain} in ${backend}`));
      } catch (error) {
        failures.push({ subject: `${family} rules of mode iptables in ${backend}`, error });
      }
    }
    if (removedCount > 0) iptables.push({ backend, removedCount });
  }
  return { nftTables: [], iptables, kept, failures };
}

/** `nat KUBE-SERVICES` and so on. */
function ourChains(family: IpFamily, config: Config): ReadonlySet<string> {
  const { chains } = planEmptyRules(family, config);
  return new Set(chains.map(({ table, name }) => `${table} ${name}`));
}

/**
 * To be called when the rules of the configured mode stand: until then those of the old mode serve. Chains of mode iptables
 * go for mode userspace; for mode ipvs where the configuration says so, or where they are our own of an earlier run.
 * Never rejects; says whether nothing failed.
 */
export async function tidyOtherModes(
  kernel: Kernel,
  config: Config,
  { log, ranIptables = false }: { readonly log: Logger; readonly ranIptables?: boolean },
): Promise<boolean> {
  if (config.isObserveOnly || mayBeInUse(config)) return true;
  const reports: OtherModesReport[] = [];
  if (config.mode === "userspace") {
    reports.push(await removeIptablesMode(kernel, config, () => true));
  } else if (config.mode === "ipvs" && (config.isLeftoverRemoved || ranIptables)) {
    const isUnused = (backend: string): boolean => backend === kernel.unusedBackend?.backend;
    reports.push(await removeIptablesMode(kernel, config, isUnused));
  }
  reports.push(await removeNftTables(kernel));
  for (const one of reports) report(one, log);
  return reports.every(({ failures }) => failures.length === 0);
}

function report({ nftTables, iptables, kept, failures }: OtherModesReport, log: Logger): void {
  if (nftTables.length > 0) {
    log.info("Removed tables of kube-proxy's nftables mode", { tables: nftTables });
  }
  for (const { backend, removedCount } of iptables) {
    const keys = { backend, chainsAndJumps: removedCount };
    log.info("Removed rules of kube-proxy's iptables mode", keys);
  }
  if (kept.length > 0) {
    const reason = "rules of other programs lead to them";
    log.warn("Kept chains of kube-proxy's iptables mode", { chains: kept, reason });
  }
  for (const { subject, error } of failures) {
    const keys = { subject, err: errorText(error) };
    log.warn("Cannot remove leftovers of another kube-proxy mode", keys);
  }
}

export interface CleanUpParts {
  readonly print: (line: string) => void;
  /** Running on this node. */
  readonly proxy: OtherProxy | undefined;
}

/** Of a process the mode is unknown. */
function isUsedBy(proxy: OtherProxy | undefined): boolean {
  return proxy !== undefined && !(proxy.kind === "port" && proxy.mode === "ipvs");
}

/**
 * `--cleanup`: both modes, and what to print. A kube-proxy that runs in one of them works on without ours, not without its
 * own. False where something was left that should not be.
 */
export async function cleanUpOtherModes(
  kernel: Tables,
  config: Config,
  { print, proxy }: CleanUpParts,
): Promise<boolean> {
  if (mayBeInUse(config) || isUsedBy(proxy)) {
    const who = proxy === undefined ? "kube-proxy may be running" : proxyText(proxy);
    print(`Kept what kube-proxy's modes iptables and nftables use: ${who}`);
    return true;
  }
  const reports = [
    await removeIptablesMode(kernel, config, () => true),
    await removeNftTables(kernel),
  ];
  for (const { nftTables, iptables, kept, failures } of reports) {
    for (const { backend, removedCount } of iptables) {
      const count = String(removedCount).padStart(5);
      print(
        `Removed ${count} iptables chains and jumps of kube-proxy's mode iptables in ${backend}`,
      );
    }
    for (const table of nftTables) {
      print(`Removed     1 nft table of kube-proxy's mode nftables: ${table}`);
    }
    for (const chain of kept) print(`Kept ${chain}: a rule that is not ours still uses it`);
    for (const { subject, error } of failures) {
      print(`Could not remove ${subject}: ${errorText(error)}`);
    }
  }
  return reports.every(({ failures }) => failures.length === 0);
}
