/**
 * Removes leftovers of IPVS mode from a node that now runs a different mode: virtual servers, kube-ipvs0, ipsets,
 * rules.
 */
import type { Clock } from "../../base/clock.ts";
import { ipFamilies } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import type { IpvsGoal, RulesGoal } from "../../reconcile/clean-up.ts";
import { readNodeAddresses } from "../../reconcile/observed/read-addresses.ts";
import type { OwnershipRecord } from "../../reconcile/ownership/ownership.ts";
import { chainKey, type TableName } from "../../state/rule.ts";
import type { VirtualServerId } from "../../state/virtual-server.ts";
import {
  carryOut,
  type Removal,
  type RemovalContext,
  removeAndLog,
  rulesGoals,
} from "./removal.ts";
import { connectionsEnd, forgetFlows } from "./standing-connections.ts";

export interface EarlierRuns {
  /**
   * True if IPVS mode ran on this node or an earlier removal failed. Leftovers may then exist even if kube-ipvs0 does
   * not.
   */
  readonly ranIpvs: boolean;
  /**
   * Whether to remove rules even if kube-ipvs0 does not exist. An earlier run in iptables mode may have kept the chains
   * that both modes use.
   */
  readonly hasRules: boolean;
  readonly record: OwnershipRecord;
}

/**
 * The steps that remove all leftovers of IPVS mode from a node that runs a different mode. Empty if there are none. The
 * first step removes jumps to chains that the current mode has rewritten: in iptables mode, KUBE-PROXY-FIREWALL drops
 * every packet to a load balancer with source ranges, and only this mode's own jumps exclude open connections.
 */
export async function ipvsRemoval(
  kernel: Kernel,
  config: Config,
  { ranIpvs, hasRules, record }: EarlierRuns,
): Promise<readonly Removal[]> {
  // An earlier removal has kept our virtual servers in networks that were excluded.
  const hasKept = record.recorded.owned.size > 0;
  const hasServed = ranIpvs || hasKept || (await hasTraces(kernel));
  if (!hasServed && !hasRules) return [];
  const hasIpvs = hasServed && kernel.modules.isAvailable("ip_vs") !== false;
  const ipvs = { ...(await ownedBy(kernel, config, record)), hasIpvs };
  const modes = { modes: ["ipvs"] as const, current: config.mode };
  const rules = rulesGoals(ipFamilies, modes, config, kernel.iptables);
  const ofJumps = new Map([...rules].map(([family, goal]) => [family, jumpsOf(goal, true)]));
  const others = new Map([...rules].map(([family, goal]) => [family, jumpsOf(goal, false)]));
  return [
    { what: "leftover jumps of IPVS mode", kernel, goal: { rules: ofJumps } },
    { what: leftovers, kernel, goal: { rules: others, ipvs } },
  ];
}

/** Selects only the jumps to chains of the current mode, or everything except these jumps. */
function jumpsOf({ leftover, kept, ...goal }: RulesGoal, areToKept: boolean): RulesGoal {
  const isToKept = (key: string, text: string): boolean => {
    const target = / -j (\S+)$/.exec(text)?.[1] ?? "";
    return kept.hasChain(chainKey(key.split(" ")[0] as TableName, target));
  };
  return {
    ...{ ...goal, kept },
    leftover: {
      hasChain: (key) => !areToKept && leftover.hasChain(key),
      hasJump: (key, text) => isToKept(key, text) === areToKept && leftover.hasJump(key, text),
    },
  };
}

const leftovers = "leftovers of IPVS mode";

/**
 * Carries out an {@link ipvsRemoval}. New connections already use the current mode, but connections opened through a
 * virtual server still need it. Therefore nothing is removed until the last of those connections has ended or its drain
 * deadline has passed. Rejects if the kernel cannot be read. Resolves with false if something that should be removed
 * remains.
 */
export async function removeWhenIdle(
  removal: Removal,
  config: Config,
  { clock, log, stop }: RemovalContext & { readonly log: Logger; readonly stop: AbortSignal },
): Promise<boolean> {
  const { kernel } = removal;
  const left = await virtualServersOf(removal, clock);
  const onWait = async (count: number): Promise<void> => {
    const keys = { virtualServers: count, ...config.drain };
    await stopBalancing(kernel, left);
    log.info(`Keeping ${leftovers} until their connections end`, keys);
  };
  const standing = await connectionsEnd(kernel, left, config, { clock, stop, onWait });
  if (stop.aborted) return false;
  const isRemoved = await removeAndLog(removal, { clock, log });
  await forgetFlows(kernel, standing);
  return isRemoved;
}

/**
 * Sets the weight of all real servers to 0, so that open connections continue, but new ones do not reach real servers
 * that are no longer updated. Packets to a cluster IP without endpoints still reach the old virtual server, because
 * iptables mode has no rule that redirects them.
 */
async function stopBalancing(
  { ipvs }: Pick<Kernel, "ipvs">,
  ids: readonly VirtualServerId[],
): Promise<void> {
  const servers = await ipvs.readRealServers(ids);
  const failed = await ipvs.apply(
    ids.flatMap((virtualServer, index) =>
      (servers[index] ?? [])
        .filter(({ weight }) => weight > 0)
        .map((server) => ({
          kind: "real-server-update" as const,
          virtualServer,
          after: { ...server, weight: 0 },
        })),
    ),
  );
  const [first] = failed;
  if (first !== undefined) throw first.error;
}

/**
 * Whether kube-ipvs0 exists. IPVS mode never serves without this link. If the link does not exist, IPVS is not read,
 * because reading it would load kernel modules.
 */
async function hasTraces({ link }: Pick<Kernel, "link">): Promise<boolean> {
  return (await link.find()) !== undefined;
}

/** Reads the facts that determine which virtual servers are ours, so that all of them can be removed. */
export async function ownedBy(
  kernel: Kernel,
  config: Config,
  record: OwnershipRecord,
): Promise<Omit<IpvsGoal, "hasIpvs">> {
  return {
    nodeAddresses: await readNodeAddresses(kernel),
    record,
    ownership: {
      foreignVirtualServers: config.foreignVirtualServers,
      excludeCIDRs: config.excludeCIDRs,
    },
  };
}

/**
 * The virtual servers that will be removed. Rejects if they cannot be read, because the removal then could not wait for
 * their connections.
 */
async function virtualServersOf(
  removal: Removal,
  clock: Clock,
): Promise<readonly VirtualServerId[]> {
  const { plan, failures } = await carryOut(removal, { clock, isDryRun: true });
  const unread = failures.find(({ subject }) => subject === "servers");
  if (unread !== undefined) throw unread.error;
  return plan.changes.flatMap((change) =>
    change.kind === "virtual-server-remove" ? [change.before] : [],
  );
}
