/** Reads the state of the kernel modules that kube-ipvs requires; see docs/kernel.md. */
import { existsSync } from "node:fs";
import { errorText } from "../../base/error-text.ts";
import type { Config } from "../../config/config.ts";
import type { KernelReaders } from "../../kernel/open-readers.ts";
import type { ModuleFact, ModuleState } from "../node.ts";

/** Folder in which the match `recent` shows its lists. */
const recentFolder = "/proc/net/xt_recent";

/** `shownBy` is a file that exists only if the module is available. It detects built-in modules that are not listed. */
interface NeededModule {
  readonly name: string;
  readonly shownBy?: string;
}

const conntrack: NeededModule = {
  name: "nf_conntrack",
  shownBy: "/proc/sys/net/netfilter/nf_conntrack_max",
};

const needed: Readonly<Record<Config["mode"], readonly NeededModule[]>> = {
  ipvs: [
    { name: "ip_vs", shownBy: "/proc/net/ip_vs" },
    conntrack,
    { name: "ip_set" },
    { name: "ip_set_hash_ipport" },
    { name: "xt_set" },
    { name: "dummy" },
  ],
  iptables: [conntrack, { name: "xt_statistic" }, { name: "xt_recent", shownBy: recentFolder }],
  userspace: [],
};

/** The modules of IPVS mode if rules are written with nf_tables. */
const neededWithNftables: readonly NeededModule[] = [
  { name: "ip_vs", shownBy: "/proc/net/ip_vs" },
  conntrack,
  { name: "nf_tables" },
  { name: "dummy" },
];

/** Reads files, and asks the kernel for ipsets and kube-ipvs0. Loads no modules. */
export async function readModules(
  readers: KernelReaders,
  mode: Config["mode"],
  rulesWriter: "iptables" | "nftables",
): Promise<readonly ModuleFact[]> {
  const hasSets = (await readers.ipSets.listSets().catch(() => undefined)) !== undefined;
  const hasLink = (await readers.link.find().catch(() => undefined)) !== undefined;
  const hasNft = (await readers.nftSets.listSets().catch(() => undefined)) !== undefined;
  const modules = rulesWriter === "nftables" ? neededWithNftables : needed[mode];
  return modules.map(({ name, shownBy }) => {
    const isShown =
      (shownBy !== undefined && existsSync(shownBy)) ||
      (name === "ip_set" && hasSets) ||
      (name === "nf_tables" && hasNft) ||
      (name === "dummy" && hasLink);
    return { name, state: isShown ? "available" : stateOf(name, readers.modules) };
  });
}

/** Why the scheduler is not available, if so. Asks the kernel only if IPVS is loaded, because a request would load it. */
export async function readSchedulerProblem(
  readers: KernelReaders,
  scheduler: string,
): Promise<string | undefined> {
  const state = stateOf(`ip_vs_${scheduler}`, readers.modules);
  if (state === "available" || state === "loadable") return undefined;
  if (isIpvsLoaded()) {
    return await readers.ipvs.checkScheduler(scheduler, "IPv4").then(
      () => undefined,
      (error: unknown) => errorText(error),
    );
  }
  if (state === "missing") return `the kernel has no ip_vs_${scheduler}`;
  throw new Error("IPVS is not loaded, and /lib/modules is not visible");
}

export function isIpvsLoaded(): boolean {
  return existsSync("/proc/net/ip_vs");
}

function stateOf(name: string, modules: KernelReaders["modules"]): ModuleState {
  const isAvailable = modules.isAvailable(name);
  if (isAvailable === true) return "available";
  const isLoadable = modules.isLoadable(name);
  if (isLoadable === true) return "loadable";
  return isLoadable === false && isAvailable === false ? "missing" : "unknown";
}
