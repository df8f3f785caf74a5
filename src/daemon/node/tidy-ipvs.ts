/** What mode ipvs left on a node that goes on in mode iptables: virtual servers, kube-ipvs0, sets, rules. */
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import { fixedChains, fixedJumps } from "../../plan/iptables/fixed-chains.ts";
import type { IptablesOptions } from "../../plan/iptables/options.ts";
import { sharedChains } from "../../plan/iptables/shared-chains.ts";
import { planRules } from "../../plan/rules.ts";
import { readAddresses } from "../../reconcile/observed/read-addresses.ts";
import { removeAll } from "../../reconcile/remove-all.ts";
import type { Jump, RuleSet } from "../../state/rule.ts";
import { systemBootClock } from "../process/boot-file.ts";
import { ownershipRecordPath, readOwnership } from "../process/ownership-record.ts";
import { mayBeInUse } from "./other-modes.ts";

/** To be called when the rules of mode iptables stand: until then the old ones serve. Never rejects. */
export async function tidyIpvs(
  kernel: Kernel,
  config: Config,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
): Promise<void> {
  if (config.isObserveOnly || mayBeInUse(config)) return;
  try {
    if (!(await hasTraces(kernel))) return;
    const { changes, kept, failures } = await removeAll(kernel, clock, {
      rules: new Map(ipFamilies.map((family) => [family, rulesOfIpvsAlone(family, config)])),
      nodeAddresses: (await readAddresses(kernel)).ofNode,
      recorded: readOwnership(ownershipRecordPath(config.drainAgesPath), systemBootClock()),
      ownership: {
        foreignVirtualServers: config.foreignVirtualServers,
        excludeCidrs: config.excludeCidrs,
      },
      hasIpvs: kernel.modules.isAvailable("ip_vs") !== false,
    });
    log.info("Removed what mode ipvs left", Object.fromEntries(changes));
    for (const { subject, reason } of kept)
      log.info("Kept what mode ipvs left", { subject, reason });
    for (const { subject, error } of failures) {
      log.warn("Cannot remove what mode ipvs left", { subject, err: errorText(error) });
    }
  } catch (error) {
    log.warn("Cannot remove what mode ipvs left", { err: errorText(error) });
  }
}

/** It never serves without its link. A kernel that never ran it is left in peace: looking further loads modules. */
async function hasTraces({ link }: Pick<Kernel, "link">): Promise<boolean> {
  return (await link.find()) !== undefined;
}

/** Chains and jumps that mode iptables has, too, are its own by now. */
function rulesOfIpvsAlone(family: IpFamily, config: Config): RuleSet {
  const { isMasqueradeAll, masqueradeMark } = config;
  const empty = { filledSets: new Set<never>(), deniedToNode: [], localDetector: undefined };
  const { chains, jumps } = planRules({ family, ...empty, isMasqueradeAll, masqueradeMark });
  const used = new Set([...fixedChains(anyOptions), ...sharedChains].map(keyOf));
  const usedJumps = new Set(
    fixedJumps({ servesAllAddresses: true, nodePortAddresses: [], servesLoopback: true }).map(
      jumpKey,
    ),
  );
  return {
    chains: chains.filter((chain) => !used.has(keyOf(chain))),
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

function keyOf({ table, name }: { readonly table: string; readonly name: string }): string {
  return `${table} ${name}`;
}

function jumpKey(jump: Jump): string {
  return JSON.stringify(jump);
}
