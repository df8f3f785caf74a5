/** Kernel prerequisites for the first sync in iptables mode: programs, counters, sysctls. */
import { errorText } from "../../base/error-text.ts";
import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel, RuleChange } from "../../kernel/kernel.ts";
import { counters } from "../../plan/iptables/fixed-chains.ts";
import { supportedFamilies } from "./prepare-kernel.ts";

/** The kernel capabilities on which iptables mode depends. */
export interface PreparedTables {
  readonly families: readonly IpFamily[];
  /** If true, rules may use our nfacct counters. */
  readonly hasCounters: boolean;
}

/** Checks what this node supports. Rejects if startup cannot continue. */
export async function prepareTables(
  kernel: Kernel,
  config: Config,
  log: Logger,
): Promise<PreparedTables> {
  const families = await supportedFamilies(kernel, log);
  const hasCounters = config.observeOnly
    ? await hasAllCounters(kernel)
    : await makeCounters(kernel, families, log);
  return { families, hasCounters };
}

/**
 * Enables routing of packets to 127.0.0.0/8, which loopback node ports need. Call this only after a sync has blocked
 * such packets from outside. The sysctl is never reset, because other software may need it.
 */
export function routeLocalnet({ sysctl }: Pick<Kernel, "sysctl">, log: Logger): void {
  const path = "net/ipv4/conf/all/route_localnet";
  try {
    if (!sysctl.ensure(path, "1")) return;
    log.info("Enabled node ports on loopback addresses", { sysctl: path });
  } catch (error) {
    log.error("Node ports do not answer on loopback addresses, because the sysctl cannot be set", {
      sysctl: path,
      err: errorText(error),
      advice: "Set it on the node, or set iptables.localhostNodePorts: false",
    });
  }
}

async function hasAllCounters({ accounting }: Kernel): Promise<boolean> {
  try {
    for (const name of Object.values(counters)) if (!(await accounting?.has(name))) return false;
    return true;
  } catch {
    return false;
  }
}

/**
 * Creates the counters, then writes a test rule with one of them, because a kernel may support counters but not the
 * iptables match for them.
 */
async function makeCounters(
  kernel: Kernel,
  families: readonly IpFamily[],
  log: Logger,
): Promise<boolean> {
  const { accounting, iptables } = kernel;
  if (accounting === undefined) return false;
  try {
    for (const name of Object.values(counters)) await accounting.ensure(name);
    for (const family of ipFamilies.filter((one) => families.includes(one))) {
      await iptables.apply(family, [probe]);
      await iptables.apply(family, [
        { kind: "chain-remove", table: "filter", chainName: probeChain },
      ]);
    }
    return true;
  } catch (error) {
    log.info("Writing rules without nfacct counters", { reason: errorText(error) });
    return false;
  }
}

const probeChain = "KUBE-IPVS-PROBE";
const probe: RuleChange = {
  kind: "chain-write",
  chain: {
    table: "filter",
    name: probeChain,
    rules: [
      {
        matches: [{ kind: "accounting", counter: counters.invalidDropped }],
        target: { kind: "return" },
      },
    ],
  },
};
