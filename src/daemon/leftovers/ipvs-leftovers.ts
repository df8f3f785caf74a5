/** What IPVS mode left on a node that goes on in another mode: virtual servers, kube-ipvs0, sets, rules. */
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { ipFamilies } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import { type CleanUpContext, cleanUp, type IpvsGoal } from "../../reconcile/clean-up.ts";
import { readNodeAddresses } from "../../reconcile/observed/read-addresses.ts";
import type { VirtualServerId } from "../../state/virtual-server.ts";
import { ownershipRecordIn } from "../process/ownership-record.ts";
import { readState } from "../process/state-file.ts";
import { removeAndLog, rulesGoals } from "./rule-leftovers.ts";
import { connectionsEnd, forgetFlows } from "./standing-connections.ts";

export interface IpvsRemovalContext {
  readonly clock: Clock;
  readonly log: Logger;
  readonly stop: AbortSignal;
  /** IPVS mode ran here, or an earlier removal failed: anything may be left, even if the link is gone. */
  readonly ranIpvs: boolean;
  /** Rules may be left without the link: chains of both modes, which iptables mode left. */
  readonly hasRules: boolean;
}

/**
 * New connections take the new way. Those that go through a virtual server need it, so all stays until the last one ended, or
 * its drain deadline passed. Never rejects; returns false if something is left that should be gone.
 */
export async function removeIpvs(
  kernel: Kernel,
  config: Config,
  { clock, log, stop, ranIpvs, hasRules }: IpvsRemovalContext,
): Promise<boolean> {
  try {
    const hasServed = ranIpvs || (await hasTraces(kernel));
    if (!hasServed && !hasRules) return true;
    const hasIpvs = hasServed && kernel.modules.isAvailable("ip_vs") !== false;
    const ipvs = { ...(await ownedBy(kernel, config)), hasIpvs };
    const modes = { modes: ["ipvs"] as const, current: config.mode };
    const rules = rulesGoals(ipFamilies, modes, config, kernel.iptables);
    const left = await virtualServersOf({ kernel, clock }, ipvs);
    const onWait = async (count: number): Promise<void> => {
      const keys = { virtualServers: count, ...config.drain };
      log.info("Keeping leftovers of IPVS mode until their connections end", keys);
      await stopBalancing(kernel, left);
    };
    const standing = await connectionsEnd(kernel, left, config, { clock, stop, onWait });
    if (stop.aborted) return false;
    const what = "leftovers of IPVS mode";
    const isRemoved = await removeAndLog(kernel, { rules, ipvs }, { clock, log, what });
    await forgetFlows(kernel, standing);
    return isRemoved;
  } catch (error) {
    log.warn("Cannot remove leftovers of IPVS mode", { err: errorText(error) });
    return false;
  }
}

/**
 * Real servers get weight 0: their connections continue, and nobody keeps them up to date any more. A cluster IP that loses
 * its last endpoint has no rule of iptables mode, so its packets reach its virtual server.
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

/** It never serves without its link. A kernel that never ran it is left in peace: looking further loads modules. */
async function hasTraces({ link }: Pick<Kernel, "link">): Promise<boolean> {
  return (await link.find()) !== undefined;
}

/** Which virtual servers are ours, if all of ours are removed. */
export async function ownedBy(kernel: Kernel, config: Config): Promise<Omit<IpvsGoal, "hasIpvs">> {
  return {
    nodeAddresses: await readNodeAddresses(kernel),
    recorded: ownershipRecordIn(readState(config.statePath)).recorded,
    ownership: {
      foreignVirtualServers: config.foreignVirtualServers,
      excludeCidrs: config.excludeCidrs,
    },
  };
}

/** Those that will be removed. Rejects if they cannot be read: nobody would wait for their connections. */
async function virtualServersOf(
  context: CleanUpContext,
  ipvs: IpvsGoal,
): Promise<readonly VirtualServerId[]> {
  const { plan, failures } = await cleanUp(
    { ...context, isDryRun: true },
    { rules: new Map(), ipvs },
  );
  const unread = failures.find(({ subject }) => subject === "servers");
  if (unread !== undefined) throw unread.error;
  return plan.changes.flatMap((change) =>
    change.kind === "virtual-server-remove" ? [change.before] : [],
  );
}
