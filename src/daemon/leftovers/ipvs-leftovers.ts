/** What IPVS mode left on a node that goes on in another mode: virtual servers, kube-ipvs0, sets, rules. */
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { ipFamilies } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import { readNodeAddresses } from "../../reconcile/observed/read-addresses.ts";
import { planRemovalFrom, type RemovalGoal, removeAll } from "../../reconcile/remove-all.ts";
import type { VirtualServerId } from "../../state/virtual-server.ts";
import { ownershipRecordIn } from "../process/ownership-record.ts";
import { readState } from "../process/state-file.ts";
import { rulesGoal } from "./rule-leftovers.ts";
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
    const { mode } = config;
    const goal = {
      ...(await ownedBy(kernel, config)),
      rules: new Map(
        ipFamilies.map((family) => [
          family,
          rulesGoal({ modes: ["ipvs"], current: mode }, family, config, kernel.iptables),
        ]),
      ),
      hasIpvs: hasServed && kernel.modules.isAvailable("ip_vs") !== false,
    };
    const left = await virtualServersOf(kernel, clock, goal);
    const onWait = async (count: number): Promise<void> => {
      const keys = { virtualServers: count, ...config.drain };
      log.info("Keeping leftovers of IPVS mode until their connections end", keys);
      await stopBalancing(kernel, left);
    };
    const standing = await connectionsEnd(kernel, left, config, { clock, stop, onWait });
    if (stop.aborted) return false;
    const isRemoved = await remove(kernel, goal, { clock, log });
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

async function remove(
  kernel: Kernel,
  goal: RemovalGoal,
  { clock, log }: Pick<IpvsRemovalContext, "clock" | "log">,
): Promise<boolean> {
  const { changes, kept, failures } = await removeAll(kernel, clock, goal);
  if (changes.size > 0) log.info("Removed leftovers of IPVS mode", Object.fromEntries(changes));
  for (const { subject, reason } of kept)
    log.info("Kept leftovers of IPVS mode", { subject, reason });
  for (const { subject, error } of failures) {
    log.warn("Cannot remove leftovers of IPVS mode", { subject, err: errorText(error) });
  }
  return failures.length === 0;
}

/** It never serves without its link. A kernel that never ran it is left in peace: looking further loads modules. */
async function hasTraces({ link }: Pick<Kernel, "link">): Promise<boolean> {
  return (await link.find()) !== undefined;
}

/** Which virtual servers are ours, if all of ours are removed. */
export async function ownedBy(
  kernel: Kernel,
  config: Config,
): Promise<Omit<RemovalGoal, "rules" | "hasIpvs">> {
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
  kernel: Kernel,
  clock: Clock,
  goal: RemovalGoal,
): Promise<readonly VirtualServerId[]> {
  const { plan, failures } = await planRemovalFrom(kernel, clock, { ...goal, rules: new Map() });
  const unread = failures.find(({ subject }) => subject === "servers");
  if (unread !== undefined) throw unread.error;
  return plan.changes.flatMap((change) =>
    change.kind === "virtual-server-remove" ? [change.before] : [],
  );
}
