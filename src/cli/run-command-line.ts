import type { Clock } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import { silentLogger } from "../base/log.ts";
import { kubernetesVersion, version } from "../base/version.ts";
import type { Config, LogFormat } from "../config/config.ts";
import { ConfigError } from "../config/config-error.ts";
import type { FlagValues } from "../config/gather-settings.ts";
import { type LoadedConfig, loadConfig } from "../config/load-config.ts";
import type { PlanFacts, PlanQuery, ServicesQuery } from "../daemon/operator/answers.ts";
import type { CommandParts } from "../daemon/run.ts";
import type { Verdict } from "../doctor/check.ts";
import { doctorFormats } from "../doctor/formats.ts";
import type { DoctorOptions } from "../doctor/print-doctor.ts";
import type { Explanation } from "../explain/explanation.ts";
import type { From } from "../explain/origins.ts";
import type { TopOptions, TopParts } from "../top/run-top.ts";
import {
  type CommandLine,
  commandCaller,
  parseCommandLine,
  type SubcommandLine,
} from "./command-line.ts";
import { askingPartsOf, type PartsWorld, partsOf } from "./command-parts.ts";
import { completionScript } from "./completion/completion.ts";
import { type FailureForm, fatalText } from "./fatal.ts";

export type PlanFormat = "text" | "json";

/** The working part of the program, loaded only when it is needed: --version should be instant. */
export interface Commands {
  /** Runs until a signal; rejects where the start makes no sense, or the daemon cannot continue. */
  runDaemon(config: Config, parts: CommandParts): Promise<void>;
  /** Loads modules and sets sysctls, for a later run with fewer rights. */
  prepareNode(config: Config, parts: CommandParts): Promise<void>;
  /** Removes everything of ours; false where something was left. */
  cleanUpNode(config: Config, parts: CommandParts): Promise<boolean>;
  /** Prints what a sync would change; false where nothing would. */
  printPlan(config: Config, parts: CommandParts, format: PlanFormat): Promise<boolean>;
  /** Prints what `--cleanup` would remove; false where there is nothing. */
  printCleanUpPlan(config: Config, parts: CommandParts, format: PlanFormat): Promise<boolean>;
  /** Prints what is wrong with this node; gives the worst verdict. */
  printDoctor(config: Config, parts: CommandParts, options: DoctorOptions): Promise<Verdict>;
  /** Makes EndpointSlices from Pods until a signal; rejects where there is no API server to do it for. */
  runEndpointController(config: Config, parts: CommandParts): Promise<void>;
  /** What a daemon would answer about Services, from what a start would find. */
  listServicesWithoutDaemon(
    config: Config,
    parts: Pick<CommandParts, "clock" | "log">,
    query: ServicesQuery,
  ): Promise<string>;
  /** What a daemon would answer about drains, from what a start would find. */
  listDrainsWithoutDaemon(
    config: Config,
    parts: Pick<CommandParts, "clock" | "log">,
  ): Promise<string>;
  /** What a daemon would answer about its plan, from what a start would find. */
  planFactsWithoutDaemon(config: Config, parts: CommandParts, query: PlanQuery): Promise<PlanFacts>;
  /** Holds a plan against the kernel, for packets of a client or of every kind. */
  explain(
    facts: PlanFacts,
    from: From | undefined,
    parts: { readonly clock: Clock },
  ): Promise<readonly Explanation[]>;
  /** Shows traffic by Service until it is ended, or once; gives the exit code. */
  runTop(parts: TopParts, options: TopOptions): Promise<number>;
}

/** What the command line needs of the process. */
export interface CommandWorld extends PartsWorld {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Columns of the terminal that stdout is; undefined: it is none. */
  readonly columns?: () => number | undefined;
  /** Standard output is a terminal that shows colours. */
  readonly isTerminal: boolean;
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
    const loaded = loadConfig(values, world, kind === "subcommand" ? kind : undefined);
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
  const parts = partsOf(loaded, values, world);
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

/** One case for each row of `subcommands.ts`. */
async function runSubcommand(line: SubcommandLine, world: CommandWorld): Promise<number> {
  switch (line.name) {
    case "plan":
      return await runWithFlags(line, world, (...given) => runPlan(line, ...given));
    case "status":
      return await runWithFlags(line, world, async ({ config }) => {
        const { runStatus } = await import("./operator/run-status.ts");
        return await runStatus({ ...line, config }, world);
      });
    case "completion":
      return printCompletion(line, world);
    case "doctor":
      return await runWithFlags(line, world, (...given) => runDoctor(line, ...given));
    case "services":
      return await runWithFlags(line, world, (...given) => runServicesCommand(line, ...given));
    case "explain":
      return await runWithFlags(line, world, (...given) => runExplainCommand(line, ...given));
    case "drains":
      return await runWithFlags(line, world, (...given) => runDrainsCommand(line, ...given));
    case "endpoint-controller":
      return await runWithFlags(line, world, async (...given) => {
        const [{ config }, , { loadCommands }] = given;
        const { runEndpointController } = await loadCommands();
        await runEndpointController(config, partsOf(...given));
        return 0;
      });
    case "top":
      return await runWithFlags(line, world, (...given) => runTopCommand(line, ...given));
    default:
      throw new Error(`Nothing runs ${line.name}`);
  }
}

async function runServicesCommand(
  line: SubcommandLine,
  ...given: Parameters<RunLoaded>
): Promise<number> {
  const [{ config }, , world] = given;
  const { runServices } = await import("./operator/run-list.ts");
  return await runServices({ ...line, config }, world, async (query) => {
    const { listServicesWithoutDaemon } = await world.loadCommands();
    return await listServicesWithoutDaemon(config, askingPartsOf(...given), query);
  });
}

async function runDrainsCommand(
  line: SubcommandLine,
  ...given: Parameters<RunLoaded>
): Promise<number> {
  const [{ config }, , world] = given;
  const { runDrains } = await import("./operator/run-list.ts");
  return await runDrains({ ...line, config }, world, async () => {
    const { listDrainsWithoutDaemon } = await world.loadCommands();
    return await listDrainsWithoutDaemon(config, askingPartsOf(...given));
  });
}

async function runExplainCommand(
  line: SubcommandLine,
  ...given: Parameters<RunLoaded>
): Promise<number> {
  const [{ config }, , world] = given;
  const { runExplain } = await import("./operator/run-explain.ts");
  return await runExplain({ ...line, config }, world, {
    explain: async (facts, from) => (await world.loadCommands()).explain(facts, from, world),
    planFacts: async (query) => {
      const { planFactsWithoutDaemon } = await world.loadCommands();
      return await planFactsWithoutDaemon(config, askingPartsOf(...given), query);
    },
  });
}

async function runTopCommand(
  { options, arguments: [filter = ""] }: SubcommandLine,
  ...[{ config }, , world]: Parameters<RunLoaded>
): Promise<number> {
  const { readNames } = await import("./operator/read-names.ts");
  const { topOptions } = await import("./operator/top-options.ts");
  const given = topOptions(options, filter, world.isTerminal);
  const { runTop, listServicesWithoutDaemon } = await world.loadCommands();
  // The log would be written over the view.
  const parts = { clock: world.clock, log: silentLogger };
  const names = (): ReturnType<typeof readNames> =>
    readNames(
      config,
      (query) => listServicesWithoutDaemon(config, parts, query),
      world.environment,
    );
  return await runTop({ ...world, readNames: names }, given);
}

async function runPlan(
  { options }: SubcommandLine,
  ...given: Parameters<RunLoaded>
): Promise<number> {
  const [{ config }, values, world] = given;
  const parts = askingPartsOf(...given);
  const commands = await world.loadCommands();
  const format = options.get("output") === "json" ? "json" : "text";
  const isCleanup = values.get("cleanup")?.at(-1) === "true";
  const print = isCleanup ? commands.printCleanUpPlan : commands.printPlan;
  return (await print(config, parts, format)) ? exitWithChanges : 0;
}

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

async function runDoctor(
  { options }: SubcommandLine,
  ...given: Parameters<RunLoaded>
): Promise<number> {
  const [{ config }, , world] = given;
  const parts = askingPartsOf(...given);
  const commands = await world.loadCommands();
  const verdict = await commands.printDoctor(config, parts, {
    format: doctorFormats.find((format) => format === options.get("output")) ?? "table",
    isBeforeInstall: options.get("before-install") === "true",
    hasColour: world.isTerminal,
  });
  return doctorExitCodes[verdict];
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
    const message = `Cannot write the configuration to ${path}: ${errorText(error)}`;
    throw new Error(message, { cause: error });
  }
  world.writeOut(`Wrote configuration to: ${path}\n`);
  return 0;
}

function fail(world: CommandWorld, error: unknown, form: FailureForm): number {
  world.writeErr(fatalText(error, world, form));
  return 1;
}
