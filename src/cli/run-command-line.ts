import type { Clock } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import type { Logger } from "../base/log.ts";
import type { SpareMemory } from "../base/spare-memory.ts";
import { kubernetesVersion, version } from "../base/version.ts";
import type { Config } from "../config/config.ts";
import type { FlagValues } from "../config/gather-settings.ts";
import { type ConfigWorld, type LoadedConfig, loadConfig } from "../config/load-config.ts";
import { LogWriter } from "../daemon/log-writer.ts";
import type { CommandParts } from "../daemon/run.ts";
import { parseCommandLine } from "./command-line.ts";
import { shownFlags } from "./flags.ts";

/** The working part of the program, loaded only when it is needed: --version should be instant. */
export interface Commands {
  /** Runs until a signal; rejects where the start makes no sense, or the daemon cannot go on. */
  runDaemon(config: Config, parts: CommandParts): Promise<void>;
  /** Loads modules and sets sysctls, for a later run with fewer rights. */
  prepareNode(config: Config, parts: CommandParts): Promise<void>;
  /** Removes everything of ours; false where something was left. */
  cleanUpNode(config: Config, parts: CommandParts): Promise<boolean>;
}

/** What the command line needs of the process. */
export interface CommandWorld extends ConfigWorld {
  readonly clock: Clock;
  readonly pid: number;
  readonly writeOut: (text: string) => void;
  readonly writeErr: (text: string) => void;
  /** Replaces a file's content; throws where it cannot. */
  readonly writeFile: (path: string, text: string) => void;
  /** Gives back memory that was needed until now. */
  readonly spareMemory: SpareMemory;
  /** Keeps the process's memory out of core dumps and other users' debuggers. Throws where the kernel refuses. */
  readonly forbidCoreDumps: () => void;
  readonly loadCommands: () => Promise<Commands>;
}

/** Does what the arguments ask for. Resolves with the exit code: 0, or 1 with the reason as last line. */
export async function runCommandLine(
  args: readonly string[],
  world: CommandWorld,
): Promise<number> {
  const commandLine = parseCommandLine(args);
  switch (commandLine.kind) {
    case "help":
      world.writeOut(commandLine.text);
      return 0;
    case "version":
      // The first words are kube-proxy's own: scripts look for them.
      world.writeOut(`Kubernetes v${kubernetesVersion} (kube-ipvs v${version})\n`);
      return 0;
    case "mistake":
      return fail(world, `${commandLine.message} (see --help)`);
    case "flags":
      return await runWithFlags(commandLine.values, world);
  }
}

async function runWithFlags(values: FlagValues, world: CommandWorld): Promise<number> {
  try {
    return await runCommand(values, world);
  } catch (error) {
    return fail(world, errorText(error));
  }
}

async function runCommand(values: FlagValues, world: CommandWorld): Promise<number> {
  const loaded = loadConfig(values, world);
  const { command, config } = loaded;
  if (loaded.written !== undefined) return writeConfig(loaded.written, world);
  const { clock, pid, spareMemory, forbidCoreDumps } = world;
  const log = new LogWriter({ clock, pid, write: world.writeErr }, config.logging);
  tell(loaded, log);
  const parts: CommandParts = {
    clock,
    log,
    spareMemory,
    forbidCoreDumps,
    print: (line) => world.writeOut(`${line}\n`),
    shown: { object: loaded.object, flags: shownFlags(values) },
    setVerbosity: (level) => log.setVerbosity(level),
    ...(loaded.filePath === "" ? {} : { configFile: configFile(loaded, values, world) }),
  };
  const commands = await world.loadCommands();
  switch (command) {
    case "clean-up": {
      const isClean = await commands.cleanUpNode(config, parts);
      return isClean ? 0 : fail(world, "Not everything could be removed, see above");
    }
    case "init-only":
      await commands.prepareNode(config, parts);
      return 0;
    default:
      await commands.runDaemon(config, parts);
      return 0;
  }
}

function writeConfig(
  { path, text }: NonNullable<LoadedConfig["written"]>,
  world: CommandWorld,
): number {
  try {
    world.writeFile(path, text);
  } catch (error) {
    return fail(world, `Cannot write the configuration to ${path}: ${errorText(error)}`);
  }
  world.writeOut(`Wrote configuration to: ${path}\n`);
  return 0;
}

function tell({ notices }: LoadedConfig, log: Logger): void {
  for (const { level, event, keys } of notices) log[level](event, keys);
}

function configFile(
  initial: LoadedConfig,
  values: FlagValues,
  world: CommandWorld,
): NonNullable<CommandParts["configFile"]> {
  return {
    path: initial.filePath,
    initial,
    read: (log) => {
      const loaded = loadConfig(values, world);
      tell(loaded, log);
      return loaded;
    },
  };
}

function fail({ writeErr }: CommandWorld, message: string): number {
  writeErr(`Error: ${message}\n`);
  return 1;
}
