/** The types of commands and their context. The daemon itself is not a command. */
import type { Form, View } from "../answer/render.ts";
import type { Clock } from "../base/clock.ts";
import type { Config } from "../config/config.ts";
import type { FlagValues } from "../config/gather-settings.ts";
import type { ConfigInputs, LoadedConfig } from "../config/load-config.ts";
import type { RunContext } from "../daemon/run.ts";
import type { Flag } from "./flags.ts";
import type { Programs } from "./programs.ts";
import type { Source } from "./source.ts";

export interface ProcessContext extends ConfigInputs {
  readonly clock: Clock;
  readonly pid: number;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Width of the terminal in columns. Undefined if stdout is not a terminal. */
  readonly columns?: () => number | undefined;
  /** Whether to print colors: stdout is a terminal, and NO_COLOR is empty or not set. */
  readonly hasColors: boolean;
  /** Reads stdin to its end. */
  readonly readInput: () => Promise<string>;
  readonly writeOut: (text: string) => void;
  /** Whether the reader of stdout has closed the pipe. */
  readonly isOutputClosed?: () => boolean;
  readonly writeErr: (text: string) => void;
  /** Replaces a file's content; throws if it fails. */
  readonly writeFile: (path: string, text: string) => void;
  /** Writes a file that only its owner can read, or with `-` to stdout; throws if it fails. */
  readonly writeBytes: (path: string, bytes: Uint8Array) => void;
  /** Prevents core dumps of the process and tracing by other users. Throws if the kernel rejects the request. */
  readonly forbidCoreDumps: () => void;
  /** Called once, after the configuration is loaded. */
  readonly noteLoaded: (loaded: LoadedConfig) => void;
  readonly programs: Programs;
}

/** The arguments of a command. */
export interface GivenArguments {
  /** The daemon's flags. */
  readonly values: FlagValues;
  /** The command's own options, with their defaults. */
  readonly options: ReadonlyMap<string, string>;
  readonly arguments: readonly string[];
}

export interface CommandContext extends ProcessContext, GivenArguments {
  readonly config: Config;
  /** Whether {@link config} is the running daemon's. */
  readonly isRunningConfig: boolean;
  readonly source: Source;
  readonly form: Form;
  /** The output format, as chosen with `-o`. */
  readonly format: string;
  /** Returns the context for the daemon's code. Its log omits info lines unless `-v` is set. */
  readonly runContext: () => RunContext;
  /** Prints an answer in {@link format}. */
  readonly print: <A>(answer: A, view: View<A>) => void;
}

export interface Example {
  readonly command: string;
  /** The purpose of the command, in a few words. */
  readonly purpose: string;
}

/** An option of a command, as opposed to the daemon's flags. */
export interface CommandOption extends Omit<Flag, "alias" | "group"> {
  /** If undefined, all values are valid. */
  readonly choices?: readonly string[];
}

export interface Command {
  readonly name: string;
  /** The arguments in the usage line: `[NAME] [flags]`; defaults to `[flags]`. */
  readonly usage?: string;
  /** One line for the list of commands. */
  readonly summary: string;
  /** Text for the command's help, with one line per paragraph. */
  readonly description: string;
  readonly options: readonly CommandOption[];
  /** The command does not accept the daemon's flags. Other commands accept them, but do not list them in their help. */
  readonly hasOwnFlagsOnly?: true;
  /** The command runs until stopped and logs as the daemon does. */
  readonly runsOn?: true;
  /** Without configuration flags, the command uses the running daemon's configuration. */
  readonly usesRunningConfig?: true;
  /** The command accepts a configuration file with an empty mode, because it neither serves nor plans Services. */
  readonly needsNoMode?: true;
  /** The number of arguments that are not flags; by default none. */
  readonly mostArguments?: 1 | 2;
  /** The valid arguments. If undefined, all are valid. */
  readonly argumentChoices?: readonly string[];
  /** The command writes to the terminal itself, so nothing else may. */
  readonly drawsItself?: true;
  readonly examples: readonly Example[];
  /** Resolves with the exit code. Rejects if the command cannot answer. */
  readonly run: (context: CommandContext) => Promise<number>;
}

export function valueOption(
  name: string,
  placeholder: string,
  help: string,
  byDefault: string = "",
): CommandOption {
  return { name, isBoolean: false, placeholder, help, default: byDefault };
}

/** `--name`, or `--name=true|false`. */
export function switchOption(name: string, help: string, short?: string): CommandOption {
  const option = valueOption(name, "true|false", help, "false");
  const shortName = short === undefined ? {} : { short };
  return { ...option, ...shortName, isBoolean: true, choices: ["true", "false"] };
}

/** The options `-o FORMAT` and `--width`. `more` lists additional formats. */
export function outputOptions(...more: readonly string[]): readonly CommandOption[] {
  const formats = ["text", "wide", "json", "yaml", ...more];
  const output = valueOption("output", "format", `output format: ${formats.join(", ")}`, "text");
  return [
    { ...output, short: "o", choices: [...formats, "table"] },
    valueOption(
      "width",
      "columns",
      "text width, 0 for unlimited (default: COLUMNS, otherwise the terminal's width)",
    ),
  ];
}

export const namespaceOption: CommandOption = {
  ...valueOption("namespace", "namespace", "namespace of the Services", "default"),
  short: "n",
};

export const watchOption: CommandOption = switchOption(
  "watch",
  "print again after each change, until interrupted",
  "w",
);
