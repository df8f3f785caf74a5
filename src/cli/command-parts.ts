/** What the working part of the program is given, made of the loaded configuration. */
import type { Clock } from "../base/clock.ts";
import { type Logger, withoutInfo } from "../base/log.ts";
import type { FlagValues } from "../config/gather-settings.ts";
import { type ConfigWorld, type LoadedConfig, loadConfig } from "../config/load-config.ts";
import { LogWriter } from "../daemon/log/log-writer.ts";
import type { CommandParts } from "../daemon/run.ts";
import { shownFlags } from "./flags.ts";

/** What it needs of the process. */
export interface PartsWorld extends ConfigWorld {
  readonly clock: Clock;
  readonly pid: number;
  readonly writeOut: (text: string) => void;
  readonly writeErr: (text: string) => void;
  /** Keeps the process's memory out of core dumps and other users' debuggers. Throws where the kernel refuses. */
  readonly forbidCoreDumps: () => void;
}

/** The log begins with what the configuration has to say. */
export function partsOf(loaded: LoadedConfig, values: FlagValues, world: PartsWorld): CommandParts {
  const { clock, pid, forbidCoreDumps } = world;
  const log = new LogWriter({ clock, pid, write: world.writeErr }, loaded.config.logging);
  logNotices(loaded, log);
  return {
    clock,
    log,
    forbidCoreDumps,
    isCleanupForced: loaded.isCleanupForced,
    print: (line) => world.writeOut(`${line}\n`),
    shown: { object: loaded.object, flags: shownFlags(values) },
    setVerbosity: (level) => log.setVerbosity(level),
    ...(loaded.filePath === "" ? {} : { configFile: configFile(loaded, values, world) }),
  };
}

/**
 * Of a command that answers on stdout: in a terminal what a start would log would stand before the answer. Warnings stay,
 * and from `-v=1` on all of it.
 */
export function askingPartsOf(...given: Parameters<typeof partsOf>): CommandParts {
  const parts = partsOf(...given);
  const [{ config }] = given;
  return config.logging.verbosity > 0 ? parts : { ...parts, log: withoutInfo(parts.log) };
}

function logNotices({ notices }: LoadedConfig, log: Logger): void {
  for (const { level, event, keys } of notices) log[level](event, keys);
}

function configFile(
  initial: LoadedConfig,
  values: FlagValues,
  world: PartsWorld,
): NonNullable<CommandParts["configFile"]> {
  return {
    path: initial.filePath,
    initial,
    read: (log) => {
      const loaded = loadConfig(values, world);
      logNotices(loaded, log);
      return loaded;
    },
  };
}
