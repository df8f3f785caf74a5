/** Creates the context for the daemon's code from the loaded configuration. */
import { type Logger, withoutInfo } from "../base/log.ts";
import type { FlagValues } from "../config/gather-settings.ts";
import { type LoadedConfig, loadConfig } from "../config/load-config.ts";
import { LogWriter } from "../daemon/log/log-writer.ts";
import type { RunContext } from "../daemon/run.ts";
import type { ProcessContext } from "./command.ts";
import { shownFlags } from "./flags.ts";

/** Logs the configuration notices first. */
export function runContextOf(
  loaded: LoadedConfig,
  values: FlagValues,
  process: ProcessContext,
): RunContext {
  const { clock, pid, forbidCoreDumps } = process;
  const log = new LogWriter({ clock, pid, write: process.writeErr }, loaded.config.logging);
  logNotices(loaded, log);
  return {
    clock,
    log,
    forbidCoreDumps,
    isCleanupForced: loaded.isCleanupForced,
    print: (line) => process.writeOut(`${line}\n`),
    shown: { object: loaded.object, flags: shownFlags(values) },
    setVerbosity: (level) => log.setVerbosity(level),
    ...(loaded.filePath === "" ? {} : { configFile: configFile(loaded, values, process) }),
  };
}

/**
 * The context for a command that prints an answer to stdout. Unless the verbosity is at least 1, the log omits info
 * lines, which would appear before the answer in a terminal.
 */
export function quietRunContextOf(...given: Parameters<typeof runContextOf>): RunContext {
  const runContext = runContextOf(...given);
  const [{ config }] = given;
  return config.logging.verbosity > 0
    ? runContext
    : { ...runContext, log: withoutInfo(runContext.log) };
}

function logNotices({ notices }: LoadedConfig, log: Logger): void {
  for (const { level, event, keys } of notices) log[level](event, keys);
}

function configFile(
  initial: LoadedConfig,
  values: FlagValues,
  process: ProcessContext,
): NonNullable<RunContext["configFile"]> {
  return {
    path: initial.filePath,
    text: initial.fileText,
    initial,
    read: (log) => {
      const loaded = loadConfig(values, process);
      logNotices(loaded, log);
      return loaded;
    },
  };
}
