/** Kernel prerequisites for the first sync in IPVS mode: programs, modules, scheduler, sysctls, timeouts. */
import { existsSync } from "node:fs";
import { release } from "node:os";
import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import { planSysctls, type SysctlSetting } from "../../plan/sysctls.ts";
import { setEstimator } from "./estimator.ts";
import { loadModule } from "./load-module.ts";
import { setSysctl } from "./set-sysctl.ts";

/** Thrown if startup cannot continue. The message is the last line that the operator sees. */
export class StartError extends Error {
  override readonly name = "StartError";
}

/** Checks what this node supports and applies the required settings. Returns the supported families. */
export async function prepareKernel(
  kernel: Kernel,
  config: Config,
  log: Logger,
): Promise<readonly IpFamily[]> {
  await requireIpvs(kernel, log);
  const families = await supportedFamilies(kernel, log);
  await configureKernel(kernel, config, { families, log });
  await keepConntrack(kernel, families, log);
  return families;
}

/**
 * Loads IPVS. Rejects if the kernel does not support IPVS. Call this before any write and before probing iptables,
 * which creates tables. If IPVS is missing, the node then remains unchanged.
 */
export async function requireIpvs(kernel: Kernel, log: Logger): Promise<void> {
  // Loading may fail although IPVS is built into the kernel. The next request shows whether IPVS works.
  await loadModule(kernel, "ip_vs", log);
  await kernel.ipvs.readTimeouts();
}

/**
 * Applies the settings that depend only on the configuration. Rejects before the first write if the scheduler is
 * unknown.
 */
export async function configureKernel(
  kernel: Kernel,
  config: Config,
  { families, log }: { readonly families: readonly IpFamily[]; readonly log: Logger },
): Promise<void> {
  for (const family of families) await kernel.ipvs.checkScheduler(config.scheduler, family);
  // If a sysctl cannot be written, startup fails.
  for (const setting of sysctlsOf(config)) setSysctl(kernel, setting, log);
  setEstimator(kernel, config, log);
  await setTimeouts(kernel, config, log);
}

/** IP families for which this node supports rules. Rejects if there are none. */
export async function supportedFamilies(kernel: Kernel, log: Logger): Promise<readonly IpFamily[]> {
  const supported: IpFamily[] = [];
  const reasons: string[] = [];
  for (const family of ipFamilies) {
    const reason = await unsupportedReason(kernel, family);
    if (reason === undefined) {
      supported.push(family);
      continue;
    }
    reasons.push(reason);
    log.info("IP family is not supported on this node", { ipFamily: family, reason });
  }
  if (supported.length > 0) return supported;
  if (kernel.iptables.backend === "nftables") {
    throw new StartError(
      `Cannot start: nf_tables does not work on this node (${reasons[0]}); load its kernel modules, or grant the process the capability NET_ADMIN`,
    );
  }
  throw new StartError(
    "Cannot start: neither iptables nor ip6tables works on this node; install iptables, set kubeIpvs.rules: " +
      "nftables, or grant the process the capabilities NET_ADMIN and NET_RAW",
  );
}

async function unsupportedReason(kernel: Kernel, family: IpFamily): Promise<string | undefined> {
  if (family === "IPv6") {
    if (!existsSync("/proc/net/if_inet6")) return "the kernel has no IPv6";
    if (kernel.sysctl.read("net/ipv6/conf/all/disable_ipv6") === "1") return "disabled by sysctl";
  }
  const { isSupported, reason } = await kernel.iptables.probe(family);
  return isSupported ? undefined : (reason ?? "iptables does not work");
}

/** The sysctls to set for this node's kernel. */
export function sysctlsOf({
  strictARP,
  tunnelForwarding,
}: Pick<Config, "strictARP"> &
  Partial<Pick<Config, "tunnelForwarding">>): readonly SysctlSetting[] {
  const isTunneling = tunnelForwarding === true;
  return planSysctls({ strictARP, isTunneling, kernelRelease: release() });
}

async function keepConntrack(
  kernel: Kernel,
  families: readonly IpFamily[],
  log: Logger,
): Promise<void> {
  try {
    for (const family of families) await kernel.keepConntrack?.(family);
  } catch (error) {
    log.info("Open connections break if other software deletes all nft tables", { err: error });
  }
}

async function setTimeouts(kernel: Kernel, config: Config, log: Logger): Promise<void> {
  const { tcpSeconds, tcpFinSeconds, udpSeconds } = config.ipvsTimeouts;
  if (tcpSeconds + tcpFinSeconds + udpSeconds === 0) return;
  try {
    await kernel.ipvs.writeTimeouts(config.ipvsTimeouts);
  } catch (error) {
    log.error("Cannot set IPVS timeouts", { err: error });
  }
}
