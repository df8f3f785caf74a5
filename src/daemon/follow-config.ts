/** Applies changes of the configuration file to the running daemon, in all modes. */

import { type Logger, silentLogger } from "../base/log.ts";
import type { Config } from "../config/config.ts";
import { configObject } from "../config/config-text.ts";
import type { Kernel } from "../kernel/kernel.ts";
import { openNodeKernel } from "./node/open-node-kernel.ts";
import { prepareConntrack } from "./node/prepare-conntrack.ts";
import { supportedFamilies } from "./node/prepare-kernel.ts";
import { type ConfigReloadDependencies, followConfigFile } from "./process/config-reload.ts";
import type { Stop } from "./process/life-cycle.ts";
import { writeOomScore } from "./process/oom-score.ts";
import type { ProxyHealth } from "./report/proxy-health.ts";
import type { RunContext } from "./run.ts";
import type { Daemon } from "./start.ts";

interface FollowedConfig extends Pick<RunContext, "clock" | "log" | "configFile" | "setVerbosity"> {
  readonly fail: (error: Error) => void;
  readonly health: Pick<ProxyHealth, "setTimeoutMs">;
  /** The configuration that /configz shows. */
  readonly current: { object: object };
  /** Undefined in userspace mode, which sets no conntrack limits. */
  readonly kernel?: Kernel;
}

/** Follows the configuration file, if there is one, and applies changed settings once the daemon has started. */
export function* followConfig(
  started: Promise<Pick<Daemon, "reconfigure">>,
  parts: FollowedConfig,
): Generator<Stop> {
  const { configFile, kernel, log, health, current } = parts;
  if (configFile === undefined) return;
  const apply: ConfigReloadDependencies["apply"] = async (next, values) => {
    const daemon = await started;
    await daemon.reconfigure(next);
    if (kernel !== undefined && !next.observeOnly) await limitConntrack(kernel, next, log);
    await writeOomScore(next.oomScoreAdj, parts);
    parts.setVerbosity(next.logging.verbosity);
    health.setTimeoutMs(2 * next.syncPeriodMs);
    current.object = configObject(values, next);
  };
  const check = (next: Config): Promise<void> => checkRules(next, parts);
  yield followConfigFile(configFile, { ...parts, apply, check });
}

/** Rejects if this node does not support the configured way to write rules. Userspace mode works without rules. */
async function checkRules(config: Config, { clock }: Pick<FollowedConfig, "clock">): Promise<void> {
  if (config.mode === "userspace") return;
  const context = { clock, log: silentLogger };
  const kernel = await openNodeKernel(config, context);
  try {
    await supportedFamilies(kernel, silentLogger);
  } finally {
    kernel.close();
  }
}

/**
 * Applies reloaded conntrack limits. If this fails, logs an error; the rest of the configuration still applies.
 */
async function limitConntrack(kernel: Kernel, config: Config, log: Logger): Promise<void> {
  try {
    await prepareConntrack(kernel, config, log);
  } catch (error) {
    log.error("Cannot set conntrack limits", { err: error });
  }
}
