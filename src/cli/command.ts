/** What a command besides the daemon itself is, and what it works with. */
import type { Form, View } from "../answer/render.ts";
import type { Clock } from "../base/clock.ts";
import type { Config } from "../config/config.ts";
import type { FlagValues } from "../config/gather-settings.ts";
import type { ConfigInputs, LoadedConfig } from "../config/load-config.ts";
import type { RunContext } from "../daemon/run.ts";
import type { Flag } from "./flags.ts";
import type { Programs } from "./programs.ts";
import type { Source } from "./source.ts";

/** What the process offers. */
export interface ProcessContext extends ConfigInputs {
  readonly clock: Clock;
  readonly pid: number;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Columns of the terminal that stdout is; undefined if it is not one. */
  readonly columns?: () => number | undefined;
  /** Standard output is a terminal that shows colors. */
  readonly hasColors: boolean;
  readonly writeOut: (text: string) => void;
  readonly writeErr: (text: string) => void;
  /** Replaces a file's content; throws if it fails. */
  readonly writeFile: (path: string, text: string) => void;
  /** Keeps the process's memory out of core dumps and other users' debuggers. Throws if the kernel rejects it. */
  readonly forbidCoreDumps: () => void;
  /** Called once, when the configuration is known. */
  readonly noteLoaded: (loaded: LoadedConfig) => void;
  readonly programs: Programs;
}

/** What a command works with. */
export interface CommandContext extends ProcessContext {
  readonly config: Config;
  /** The daemon's flags. */
  readonly values: FlagValues;
  /** The command's own options, with their defaults. */
  readonly options: ReadonlyMap<string, string>;
  readonly arguments: readonly string[];
  readonly source: Source;
  readonly form: Form;
  /** That `-o` asks for. */
  readonly format: string;
  /** What the daemon's own code works with; a log without information unless `-v` asks for it. */
  readonly runContext: () => RunContext;
  /** Prints an answer in this format. */
  readonly print: <A>(answer: A, view: View<A>) => void;
}

export interface Example {
  readonly command: string;
  /** What it is for, in a few words. */
  readonly purpose: string;
}

/** An option that only one command has. */
export interface CommandOption extends Omit<Flag, "alias" | "group"> {
  /** If undefined, all values are valid. */
  readonly choices?: readonly string[];
}

export interface Command {
  readonly name: string;
  /** What follows the name in the usage line: `[NAME] [flags]`; defaults to `[flags]`. */
  readonly usage?: string;
  /** One line for the list of commands. */
  readonly summary: string;
  /** For its own help: paragraphs, a line each, however long. */
  readonly description: string;
  readonly options: readonly CommandOption[];
  /** Others accept the daemon's flags, besides their own options, which alone their help lists. */
  readonly hasOwnFlagsOnly?: true;
  /** It runs until it is stopped and logs as the daemon does. */
  readonly runsOn?: true;
  /** Without flags that configure the daemon, it works with the configuration of the one that runs. */
  readonly usesRunningConfig?: true;
  /** It works with an empty mode in a configuration file, because it serves and plans nothing. */
  readonly needsNoMode?: true;
  /** It takes one argument that is not a flag. */
  readonly takesArgument?: true;
  /** Words that its argument may be; if undefined, all are valid. */
  readonly argumentChoices?: readonly string[];
  /** It draws on the terminal itself. */
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

/** `-o FORMAT` and `--width`. Formats that not every command has come last. */
export function outputOptions(...more: readonly string[]): readonly CommandOption[] {
  const formats = ["text", "wide", "json", "yaml", ...more];
  const output = valueOption(
    "output",
    "format",
    `form of the output: ${formats.join(", ")}`,
    "text",
  );
  return [
    { ...output, short: "o", choices: [...formats, "table"] },
    valueOption(
      "width",
      "columns",
      "width of the text, 0 for unlimited (default: COLUMNS, or the terminal)",
    ),
  ];
}

export const namespaceOption: CommandOption = {
  ...valueOption("namespace", "namespace", "namespace of the Services", "default"),
  short: "n",
};

export const watchOption: CommandOption = switchOption(
  "watch",
  "print again after changes, until interrupted",
  "w",
);
