import { type Form, rendered } from "../answer/render.ts";
import { silentLogger } from "../base/log.ts";
import { systemErrorText } from "../base/system-error-text.ts";
import { kubernetesVersion, version } from "../base/version.ts";
import type { LogFormat } from "../config/config.ts";
import { ConfigError } from "../config/config-error.ts";
import type { FlagValues } from "../config/gather-settings.ts";
import { type LoadedConfig, loadConfig } from "../config/load-config.ts";
import type { RunContext } from "../daemon/run.ts";
import type { CommandContext, ProcessContext } from "./command.ts";
import { type CalledCommand, callerName, parseCommandLine } from "./command-line.ts";
import { completionsOf } from "./complete.ts";
import { type FailureForm, fatalText } from "./fatal.ts";
import { quietRunContextOf, runContextOf } from "./run-context.ts";
import { runningConfig } from "./running-config.ts";
import { withSlowNotice } from "./slow-notice.ts";
import { sourceOn } from "./source.ts";

/** Runs the command line. Resolves with the exit code; if it is 1, the last lines on stderr give the reason. */
export async function runCommandLine(
  args: readonly string[],
  process: ProcessContext,
): Promise<number> {
  if (args[0] === "__complete") {
    process.writeOut(completionsOf(args.slice(1)));
    return 0;
  }
  if (args[0] === "__nodes") return await printNodes(args.slice(1), process);
  const line = parseCommandLine(args);
  switch (line.kind) {
    case "help":
      process.writeOut(line.text);
      return 0;
    case "version":
      // Scripts parse the first words, which kube-proxy prints too.
      process.writeOut(`Kubernetes v${kubernetesVersion} (kube-ipvs v${version})\n`);
      return 0;
    case "mistake":
      return fail(process, new Error(`${line.message} (see --help)`), line);
    case "flags":
      return await runLoaded(line.values, process, undefined, (loaded) =>
        runDaemonFlags(loaded, line.values, process),
      );
    case "command":
      return await runCommand(line, process);
  }
}

/** Prints many nodes' answers, which the kubectl plugin passes on stdin. `args` is the command that they answer. */
async function printNodes(args: readonly string[], process: ProcessContext): Promise<number> {
  const line = parseCommandLine(args);
  if (line.kind !== "command") return fail(process, new Error("__nodes: no command"), {});
  try {
    const { format, form } = outputOf(line, process);
    const { nodesText } = await import("./across-nodes.ts");
    const input = await process.readInput();
    const { text, exitCode } = nodesText(line.command.name, input, format, form.width);
    process.writeOut(text);
    return exitCode;
  } catch (error) {
    return fail(process, error, { caller: callerName(line.command) });
  }
}

async function runLoaded(
  values: FlagValues,
  process: ProcessContext,
  called: CalledCommand | undefined,
  run: (loaded: LoadedConfig) => Promise<number>,
): Promise<number> {
  // Until the configuration is loaded, only the flag determines the format.
  let logFormat: LogFormat = values.get("logging-format")?.at(-1) === "json" ? "json" : "text";
  try {
    const asked =
      called === undefined ? undefined : { needsMode: called.command.needsNoMode !== true };
    const loaded = loadConfig(values, process, asked);
    logFormat = loaded.config.logging.format;
    process.noteLoaded(loaded);
    return await run(loaded);
  } catch (error) {
    const format = error instanceof ConfigError ? error.logFormat : undefined;
    const caller = called === undefined ? undefined : callerName(called.command);
    return fail(process, error, { logFormat: format ?? logFormat, caller });
  }
}

/** Runs the daemon, or the command that its flags choose instead. */
async function runDaemonFlags(
  loaded: LoadedConfig,
  values: FlagValues,
  process: ProcessContext,
): Promise<number> {
  const { command, config } = loaded;
  // Info lines are omitted because clean-up prints what it removes.
  const runContext = (command === "clean-up" ? quietRunContextOf : runContextOf)(
    loaded,
    values,
    process,
  );
  if (loaded.written !== undefined) return writeConfig(loaded.written, process);
  const { cleanUpNode, prepareNode, runDaemon } = await process.programs.daemon();
  switch (command) {
    case "clean-up": {
      const isClean = await cleanUpNode(config, runContext);
      if (!isClean) throw new Error("Cleanup incomplete; see above");
      return 0;
    }
    case "init-only":
      await prepareNode(config, runContext);
      return 0;
    default:
      await runDaemon(config, runContext);
      return 0;
  }
}

async function runCommand(line: CalledCommand, process: ProcessContext): Promise<number> {
  const { command, values } = line;
  const runIn = (context: ProcessContext): Promise<number> =>
    runLoaded(values, context, line, async (loaded) => {
      const used =
        command.usesRunningConfig === true ? await runningConfig(loaded, values, context) : loaded;
      const full = contextOf(line, used, context, used !== loaded);
      return await command.run(full).catch((error) => {
        throw full.source.reasonFor(error);
      });
    });
  if (command.drawsItself === true) return await runIn(process);
  return await withSlowNotice(`kube-ipvs ${command.name}`, process, runIn);
}

function contextOf(
  line: CalledCommand,
  loaded: LoadedConfig,
  process: ProcessContext,
  isRunningConfig: boolean,
): CommandContext {
  const { command, options, values } = line;
  const { config } = loaded;
  const makeRunContext = command.runsOn === true ? runContextOf : quietRunContextOf;
  const runContext = (): RunContext => makeRunContext(loaded, values, process);
  const { format, form } = outputOf(line, process);
  const firstSync = async (target: string): Promise<string> => {
    const { answerWithoutDaemon } = await process.programs.firstSync();
    // Log lines would overwrite the command's display.
    const log = command.drawsItself === true ? silentLogger : runContext().log;
    return await answerWithoutDaemon(config, { clock: process.clock, log }, target);
  };
  return {
    ...process,
    ...{ config, isRunningConfig, values, options, runContext, format, form },
    arguments: line.arguments,
    source: sourceOn(config.operatorSocket, firstSync, process.writeErr),
    print: (answer, view) => process.writeOut(rendered(answer, view, format, form)),
  };
}

function outputOf(
  { options }: CalledCommand,
  process: ProcessContext,
): Pick<CommandContext, "format" | "form"> {
  const written = options.get("output") ?? "text";
  return {
    format: written === "table" ? "text" : written,
    form: { width: widthOf(options.get("width"), process), hasColor: process.hasColors },
  };
}

/** Returns `--width` or, without it, `$COLUMNS` or the terminal's width. Throws if `--width` is invalid. */
function widthOf(written: string | undefined, process: ProcessContext): Form["width"] {
  if (written === undefined || written === "") return process.columns?.();
  if (!/^\d{1,5}$/.test(written)) {
    throw new Error(
      `--width: ${JSON.stringify(written)}: must be a number of columns (0: unlimited)`,
    );
  }
  return Number(written) || undefined;
}

function writeConfig(
  { path, text }: NonNullable<LoadedConfig["written"]>,
  process: ProcessContext,
): number {
  try {
    process.writeFile(path, text);
  } catch (error) {
    const message = `Cannot write the configuration to ${path}: ${systemErrorText(error)}; set --write-config-to to a file in an existing, writable directory`;
    throw new Error(message, { cause: error });
  }
  process.writeOut(`Wrote configuration to: ${path}\n`);
  return 0;
}

function fail(process: ProcessContext, error: unknown, form: FailureForm): number {
  process.writeErr(fatalText(error, process, form));
  return 1;
}
