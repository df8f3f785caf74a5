import { silentLogger } from "../base/log.ts";
import { systemErrorText } from "../base/system-error-text.ts";
import { kubernetesVersion, version } from "../base/version.ts";
import type { Config, LogFormat } from "../config/config.ts";
import { ConfigError } from "../config/config-error.ts";
import type { FlagValues } from "../config/gather-settings.ts";
import { type LoadedConfig, loadConfig } from "../config/load-config.ts";
import type { CommandParts } from "../daemon/run.ts";
import type { Verdict } from "../doctor/check.ts";
import {
  type CommandLine,
  commandCaller,
  needsMode,
  parseCommandLine,
  type SubcommandLine,
} from "./command-line.ts";
import { askingPartsOf, type PartsWorld, partsOf } from "./command-parts.ts";
import { completionScript } from "./completion/completion.ts";
import { type FailureForm, fatalText } from "./fatal.ts";
import type { Question, WithoutDaemon } from "./operator/question.ts";
import { withSlowNotice } from "./slow-notice.ts";

/** The working part of the program, loaded only when it is needed: --version should be instant. */
export type Commands = Pick<
  typeof import("../daemon/run.ts"),
  "runDaemon" | "prepareNode" | "cleanUpNode"
> &
  Pick<typeof import("../daemon/print-plan.ts"), "printPlan"> &
  Pick<typeof import("../daemon/print-cleanup-plan.ts"), "printCleanUpPlan"> &
  Pick<typeof import("../daemon/run-endpoint-controller.ts"), "runEndpointController"> &
  Pick<typeof import("../daemon/operator/answer-without-daemon.ts"), "answerWithoutDaemon"> &
  Pick<typeof import("../doctor/print-doctor.ts"), "printDoctor"> &
  Pick<typeof import("../explain/explain.ts"), "explain"> &
  Pick<typeof import("../top/run-top.ts"), "runTop">;

/** What the command line needs of the process. */
export interface CommandWorld extends PartsWorld {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Columns of the terminal that stdout is; undefined if it is not one. */
  readonly columns?: () => number | undefined;
  /** Standard output is a terminal that shows colors. */
  readonly hasColors: boolean;
  /** Replaces a file's content; throws where it cannot. */
  readonly writeFile: (path: string, text: string) => void;
  /** Called once, when the configuration is known. */
  readonly noteLoaded: (loaded: LoadedConfig) => void;
  readonly loadCommands: () => Promise<Commands>;
}

/** Does what the arguments ask for. Resolves with the exit code: 0, or 1 with the reasons as last lines. */
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
      return fail(world, new Error(`${commandLine.message} (see --help)`), commandLine);
    case "flags":
      return await runWithFlags(commandLine, world, runCommand);
    case "subcommand":
      return await runSubcommand(commandLine, world);
  }
}

type RunLoaded = (loaded: LoadedConfig, values: FlagValues, world: CommandWorld) => Promise<number>;

async function runWithFlags(
  line: Extract<CommandLine, { readonly values: FlagValues }>,
  world: CommandWorld,
  runLoaded: RunLoaded,
): Promise<number> {
  const { kind, values } = line;
  // Until the configuration is known, the flag alone can say it.
  let logFormat: LogFormat = values.get("logging-format")?.at(-1) === "json" ? "json" : "text";
  try {
    const loaded = loadConfig(
      values,
      world,
      kind === "subcommand" ? { needsMode: needsMode(line.name) } : undefined,
    );
    logFormat = loaded.config.logging.format;
    world.noteLoaded(loaded);
    return await runLoaded(loaded, values, world);
  } catch (error) {
    const format = error instanceof ConfigError ? error.logFormat : undefined;
    const caller = kind === "subcommand" ? commandCaller(line.name) : undefined;
    return fail(world, error, { logFormat: format ?? logFormat, caller });
  }
}

async function runCommand(
  loaded: LoadedConfig,
  values: FlagValues,
  world: CommandWorld,
): Promise<number> {
  const { command, config } = loaded;
  // A clean-up prints what it removes.
  const parts = (command === "clean-up" ? askingPartsOf : partsOf)(loaded, values, world);
  if (loaded.written !== undefined) return writeConfig(loaded.written, world);
  const commands = await world.loadCommands();
  switch (command) {
    case "clean-up": {
      const isClean = await commands.cleanUpNode(config, parts);
      if (!isClean) throw new Error("Cleanup incomplete, see above");
      return 0;
    }
    case "init-only":
      await commands.prepareNode(config, parts);
      return 0;
    default:
      await commands.runDaemon(config, parts);
      return 0;
  }
}

/** A command of the table, and what it works with. */
interface CalledCommand {
  readonly line: SubcommandLine;
  readonly config: Config;
  readonly world: CommandWorld;
  /** Of a command that answers on stdout. */
  readonly parts: () => CommandParts;
}

async function runSubcommand(line: SubcommandLine, world: CommandWorld): Promise<number> {
  if (line.name === "completion") return printCompletion(line, world);
  const run = runs[line.name];
  if (run === undefined) throw new Error(`Nothing runs ${line.name}`);
  const runIn = async (inWorld: CommandWorld): Promise<number> =>
    await runWithFlags(line, inWorld, (loaded, values, own) => {
      const makeParts = commandCaller(line.name) === undefined ? partsOf : askingPartsOf;
      const parts = (): CommandParts => makeParts(loaded, values, own);
      return run({ line, config: loaded.config, world: own, parts });
    });
  // The picture of `top` is drawn past `writeOut`, and a line of another would stand in it.
  if (line.name === "top") return await runIn(world);
  return await withSlowNotice(`kube-ipvs ${line.name}`, world, runIn);
}

function questionOf({ line, config }: CalledCommand): Question {
  return { ...line, config };
}

function withoutDaemon(
  { config, world, ...called }: CalledCommand,
  parts: () => Pick<CommandParts, "clock" | "log"> = called.parts,
): WithoutDaemon {
  return async (target) => {
    const { answerWithoutDaemon } = await world.loadCommands();
    return await answerWithoutDaemon(config, parts(), target);
  };
}

/** One for each row of `subcommands.ts` that a configuration is loaded for. */
const runs: Readonly<Record<string, (called: CalledCommand) => Promise<number>>> = {
  status: async (called) => {
    const { runStatus } = await import("./operator/run-status.ts");
    return await runStatus(questionOf(called), called.world);
  },
  services: async (called) => {
    const { runServices } = await import("./operator/run-list.ts");
    return await runServices(questionOf(called), called.world, withoutDaemon(called));
  },
  drains: async (called) => {
    const { runDrains } = await import("./operator/run-list.ts");
    return await runDrains(questionOf(called), called.world, withoutDaemon(called));
  },
  explain: async (called) => {
    const { world } = called;
    const { runExplain } = await import("./operator/run-explain.ts");
    return await runExplain(questionOf(called), world, {
      explain: async (facts, from) => (await world.loadCommands()).explain(facts, from, world),
      withoutDaemon: withoutDaemon(called),
    });
  },
  top: async (called) => {
    const { line, config, world } = called;
    const { readNames } = await import("./operator/read-names.ts");
    const { topOptions } = await import("./operator/top-options.ts");
    const [filter = ""] = line.arguments;
    const options = topOptions(line.options, filter, world.hasColors);
    const { runTop } = await world.loadCommands();
    // The log would be written over the view.
    const answer = withoutDaemon(called, () => ({ clock: world.clock, log: silentLogger }));
    const names = (): ReturnType<typeof readNames> => readNames(config, answer, world.environment);
    return await runTop({ ...world, columns: world.columns?.(), readNames: names }, options);
  },
  plan: async ({ line: { options, values }, config, world, parts }) => {
    const commands = await world.loadCommands();
    const isCleanup = values.get("cleanup")?.at(-1) === "true";
    const print = isCleanup ? commands.printCleanUpPlan : commands.printPlan;
    return (await print(config, parts(), options.get("output"))) ? exitWithChanges : 0;
  },
  doctor: async ({ line: { options }, config, world, parts }) => {
    const commands = await world.loadCommands();
    const verdict = await commands.printDoctor(config, parts(), {
      format: options.get("output"),
      isBeforeInstall: options.get("before-install") === "true",
      hasColor: world.hasColors,
    });
    return doctorExitCodes[verdict];
  },
  "endpoint-controller": async ({ config, world, parts }) => {
    const { runEndpointController } = await world.loadCommands();
    await runEndpointController(config, parts());
    return 0;
  },
};

function printCompletion({ arguments: [shell = ""] }: SubcommandLine, world: CommandWorld): number {
  const script = completionScript(shell);
  if (script === undefined) {
    const written =
      shell === "" ? "no shell is given" : `no completion for ${JSON.stringify(shell)}`;
    const caller = commandCaller("completion");
    return fail(world, new Error(`${written}: bash, zsh or fish (see --help)`), { caller });
  }
  world.writeOut(script);
  return 0;
}

/** What could not be found out is no pass. */
const doctorExitCodes: Readonly<Record<Verdict, number>> = { ok: 0, unknown: 1, warn: 1, fail: 2 };

/** As `diff` and `terraform plan -detailed-exitcode` have it. */
const exitWithChanges = 2;

function writeConfig(
  { path, text }: NonNullable<LoadedConfig["written"]>,
  world: CommandWorld,
): number {
  try {
    world.writeFile(path, text);
  } catch (error) {
    const message = `Cannot write the configuration to ${path}: ${systemErrorText(error)}; give --write-config-to a file in a folder that exists and can be written`;
    throw new Error(message, { cause: error });
  }
  world.writeOut(`Wrote configuration to: ${path}\n`);
  return 0;
}

function fail(world: CommandWorld, error: unknown, form: FailureForm): number {
  world.writeErr(fatalText(error, world, form));
  return 1;
}
