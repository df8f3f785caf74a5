/** Connection-tracking limits and timeouts, which are set at startup as in kube-proxy. */
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { attempt } from "../../base/attempt.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import { countCpus, planConntrackLimits } from "../../plan/conntrack-limits.ts";
import { loadModule } from "./load-module.ts";
import { setSysctl } from "./set-sysctl.ts";

const module = "nf_conntrack";
const maxPath = "net/netfilter/nf_conntrack_max";
const bucketsParameter = "hashsize";

/** Sets only values that differ. Throws KernelFileError. */
export async function prepareConntrack(
  kernel: Pick<Kernel, "sysctl" | "modules">,
  { conntrack }: Pick<Config, "conntrack">,
  log: Logger,
  cpuCount: number = onlineCpus(),
): Promise<void> {
  const { max, sysctls } = planConntrackLimits(conntrack, cpuCount);
  if (max === undefined && sysctls.length === 0) return;
  await loadModule(kernel, module, log);
  if (max !== undefined) {
    setSysctl(kernel, { path: maxPath, value: String(max.entries) }, log);
    growTable(kernel, max.minBuckets, log);
  }
  for (const setting of sysctls) setSysctl(kernel, setting, log);
}

/** Enlarges the hash table if it has fewer than `minBuckets`. Never shrinks it. */
function growTable({ modules }: Pick<Kernel, "modules">, minBuckets: number, log: Logger): void {
  const present = Number(modules.readParameter(module, bucketsParameter) ?? Number.NaN);
  if (present >= minBuckets) return;
  modules.writeParameter(module, bucketsParameter, String(minBuckets));
  log.info("Set module parameter", { module, parameter: bucketsParameter, value: minBuckets });
}

function onlineCpus(): number {
  const online = attempt(() => readFileSync("/sys/devices/system/cpu/online", "utf8"));
  return countCpus(online ?? "") ?? availableParallelism();
}
