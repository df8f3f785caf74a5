/** What mode ipvs left on a node that goes on in another mode: virtual servers, kube-ipvs0, sets, rules. */
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import { fixedChains, fixedJumps } from "../../plan/iptables/fixed-chains.ts";
import type { IptablesOptions } from "../../plan/iptables/options.ts";
import { sharedChains } from "../../plan/iptables/shared-chains.ts";
import { planEmptyRules } from "../../plan/rules.ts";
import { readNodeAddresses } from "../../reconcile/observed/read-addresses.ts";
import { planRemovalFrom, type RemovalGoal, removeAll } from "../../reconcile/remove-all.ts";
import { chainKey, type Jump, type RuleSet } from "../../state/rule.ts";
import type { VirtualServerId } from "../../state/virtual-server.ts";
import { ownershipRecordIn } from "../process/ownership-record.ts";
import { readState } from "../process/state-file.ts";
import { mayBeInUse } from "./other-modes.ts";
import { connectionsEnd, forgetFlows } from "./standing-connections.ts";

export interface TidyIpvsParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly stop: AbortSignal;
  /** IPVS mode ran here, or an earlier removal failed: anything may be left, even if the link is gone. */
  readonly ranIpvs: boolean;
  /** Rules may be left without the link: chains of both modes, which iptables mode left. */
  readonly mayHaveRules?: boolean;
  /** Chains and jumps that go. */
  readonly rulesOf: (family: IpFamily, config: Config) => RuleSet;
}

/**
 * To be called when the rules of the new mode stand: until then the old ones serve. New connections take the new way from
 * then on; those that go through a virtual server need it, so all stays until the last one ended, or its time as a drain
 * is over. Never rejects; returns false if something is left that should be gone.
 */
export async function tidyIpvs(
  kernel: Kernel,
  config: Config,
  parts: TidyIpvsParts,
): Promise<boolean> {
  if (config.isObserveOnly || mayBeInUse(config)) return true;
  const { clock, log, stop } = parts;
  try {
    const hasServed = parts.ranIpvs || (await hasTraces(kernel));
    if (!hasServed && parts.mayHaveRules !== true) return true;
    const goal = {
      ...(await ownedBy(kernel, config)),
      rules: new Map(ipFamilies.map((family) => [family, parts.rulesOf(family, config)])),
      hasIpvs: hasServed && kernel.modules.isAvailable("ip_vs") !== false,
    };
    const left = await virtualServersOf(kernel, clock, goal);
    const onWait = (virtualServers: number): void =>
      log.info("Keeping leftovers of IPVS mode until their connections end", {
        virtualServers,
        ...config.drain,
      });
    const standing = await connectionsEnd(kernel, left, config, { clock, stop, onWait });
    if (stop.aborted) return false;
    const isRemoved = await remove(kernel, goal, parts);
    await forgetFlows(kernel, standing);
    return isRemoved;
  } catch (error) {
    log.warn("Cannot remove leftovers of IPVS mode", { err: errorText(error) });
    return false;
  }
}

async function remove(
  kernel: Kernel,
  goal: RemovalGoal,
  { clock, log }: Pick<TidyIpvsParts, "clock" | "log">,
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

/** Which virtual servers are ours, where all of ours go. */
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

/** All of mode ipvs without chains and jumps that mode iptables has, too: those are its own by now. */
export function rulesOfIpvsAlone(family: IpFamily, config: Config): RuleSet {
  const { chains, jumps } = planEmptyRules(family, config);
  const used = new Set(
    [...fixedChains(anyOptions), ...sharedChains].map(({ table, name }) => chainKey(table, name)),
  );
  const usedJumps = new Set(
    fixedJumps({ servesAllAddresses: true, nodePortAddresses: [], servesLoopback: true }).map(
      jumpKey,
    ),
  );
  return {
    chains: chains.filter(({ table, name }) => !used.has(chainKey(table, name))),
    jumps: jumps.filter((jump) => !usedJumps.has(jumpKey(jump))),
  };
}

/** Names do not depend on them. */
const anyOptions: IptablesOptions = {
  shared: {
    place: { nodeName: "", zone: "" },
    families: new Map(),
    scheduler: "",
    isMasqueradeAll: false,
    masqueradeMark: 0,
  },
  families: new Map(),
  hasCounters: false,
  isTcpLiberal: false,
  largeFamilies: new Set(),
};

function jumpKey(jump: Jump): string {
  return JSON.stringify(jump);
}
