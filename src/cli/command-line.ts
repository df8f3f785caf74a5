import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import type { FlagValues } from "../config/gather-settings.ts";
import { type Flag, flags } from "./flags.ts";
import { normaliseFlags } from "./go-flags.ts";
import {
  type CommandOption,
  daemonExamples,
  type Example,
  type Subcommand,
  subcommands,
} from "./subcommands.ts";
import { suggest } from "./suggest.ts";

/** What the arguments ask for. */
export type CommandLine =
  | { readonly kind: "help"; readonly text: string }
  | { readonly kind: "version" }
  /** Values as written; {@link FlagValues} says how. */
  | { readonly kind: "flags"; readonly values: FlagValues }
  | SubcommandLine
  | {
      readonly kind: "mistake";
      readonly message: string;
      /** `kube-ipvs`, or `kube-ipvs plan`, where a command was called; absent: the daemon. */
      readonly caller?: string;
    };

/** `kube-ipvs plan -o json --config=FILE`. */
export interface SubcommandLine {
  readonly kind: "subcommand";
  /** Of the table in `subcommands.ts`. */
  readonly name: string;
  /** Of the daemon's flags. */
  readonly values: FlagValues;
  /** Of the command's own options: each, with its default where it was not given. */
  readonly options: ReadonlyMap<string, string>;
  readonly arguments: readonly string[];
}

/** Reads the arguments behind the program's name. */
export function parseCommandLine(args: readonly string[]): CommandLine {
  const subcommand = subcommands.find(({ name }) => name === args[0]);
  const { options = [], hasOwnFlagsOnly } = subcommand ?? {};
  const known = [...options, ...(hasOwnFlagsOnly ? [] : flags)];
  const command = makeCommand(subcommand, known);
  let helpText = "";
  command.configureOutput({
    writeOut: (text) => {
      helpText += text;
    },
    writeErr: () => {},
  });
  try {
    const flagArgs = subcommand === undefined ? args : args.slice(1);
    command.parse([...normaliseFlags(flagArgs, known)], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === "commander.helpDisplayed") return { kind: "help", text: helpText };
    const message = mistake(error, command, { subcommand, args });
    const caller = callerOf(args, subcommand);
    return { kind: "mistake", message, ...(caller === undefined ? {} : { caller }) };
  }
  if (command.getOptionValue("version") !== undefined) return { kind: "version" };
  const values = valuesOf(command, flags);
  if (subcommand === undefined) return { kind: "flags", values };
  const { name } = subcommand;
  return {
    kind: "subcommand",
    name,
    values,
    options: optionValues(command, options),
    arguments: command.args,
  };
}

/** What stands before the failure of a command; undefined: it runs until it is stopped, as the daemon, and logs. */
export function commandCaller(name: string): string | undefined {
  const isLogging = subcommands.find((row) => row.name === name)?.runsOn === true;
  return isLogging ? undefined : `kube-ipvs ${name}`;
}

export function needsMode(name: string): boolean {
  return subcommands.find((row) => row.name === name)?.needsNoMode !== true;
}

/** A first argument that is no flag was meant as a command. */
function callerOf(
  [first = "-"]: readonly string[],
  subcommand: Subcommand | undefined,
): string | undefined {
  if (subcommand !== undefined) return commandCaller(subcommand.name);
  return first.startsWith("-") ? undefined : "kube-ipvs";
}

const description =
  "kube-ipvs implements Kubernetes Services with IPVS in the Linux kernel. It replaces kube-proxy.\n" +
  "It reads Services and EndpointSlices from a cluster or from a directory (--manifests).";

const daemonUsage: Omit<Subcommand, "summary" | "options"> = {
  name: "",
  usage: "[command] [flags]",
  description,
  examples: daemonExamples,
};

function makeCommand(
  subcommand: Subcommand | undefined,
  known: readonly (Flag | CommandOption)[],
): Command {
  const called = subcommand ?? daemonUsage;
  const { name, usage = "[flags]", description, examples } = called;
  const command = new Command(`kube-ipvs ${name}`.trimEnd())
    .usage(usage)
    .description(description)
    .exitOverride()
    .allowExcessArguments(false)
    .configureHelp({ helpWidth: 100, optionTerm: termOf })
    .addHelpText(
      "after",
      `${subcommand === undefined ? commandsText() : moreFlagsText(subcommand)}${examplesText(examples)}`,
    )
    .addHelpOption(new Option("-h, --help", "print this help and exit").helpGroup("Start:"));
  if (called.takesArgument) command.argument("[argument]");
  if (!called.hasOwnFlagsOnly) {
    const version = new Option("--version [form]", "print the version and exit");
    command.addOption(version.helpGroup("Start:"));
  }
  const own: readonly (Flag | CommandOption)[] = subcommand?.options ?? known;
  for (const flag of known) {
    const option = optionOf(flag);
    const isHidden = !own.includes(flag);
    command.addOption(isHidden ? option.hideHelp() : option);
  }
  return command;
}

function commandsText(): string {
  const width = Math.max(...subcommands.map(({ name }) => name.length));
  const lines = subcommands.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}\n`);
  return `\nCommands, each with its own --help; without one this is the daemon:\n${lines.join("")}`;
}

function moreFlagsText({ hasOwnFlagsOnly }: Subcommand): string {
  return hasOwnFlagsOnly ? "" : "\nThe daemon's flags apply too: kube-ipvs --help\n";
}

function examplesText(examples: readonly Example[]): string {
  if (examples.length === 0) return "";
  const lines = examples.map(({ command, purpose }) => `  # ${purpose}\n  ${command}\n`);
  // commander ends it with a line end of its own.
  return `\nExamples:\n${lines.join("\n").trimEnd()}`;
}

function optionOf(flag: Flag | CommandOption): Option {
  const { name, short, placeholder, help, default: value } = flag;
  const group = "group" in flag ? flag.group : "Output";
  const choices = "choices" in flag ? flag.choices : undefined;
  const names = short === undefined ? `--${name}` : `-${short}, --${name}`;
  const shownDefault = value === "" || value === "false" ? "" : ` (default ${value})`;
  return new Option(`${names} <${placeholder}>`, `${help}${shownDefault}`)
    .argParser((written: string, before?: readonly string[]) => {
      if (choices === undefined || choices.includes(written)) return [...(before ?? []), written];
      throw new InvalidArgumentError(`Allowed choices are ${choices.join(", ")}.`);
    })
    .helpGroup(`${group}:`)
    .hideHelp(help === "");
}

/** A switch needs no value. */
function termOf(option: Option): string {
  return option.flags.replace(" <true|false>", "").replace(" [form]", "");
}

function valuesOf(command: Command, table: readonly Pick<Flag, "name">[]): FlagValues {
  const names = new Set(table.map(({ name }) => name));
  const values = new Map<string, readonly string[]>();
  for (const option of command.options) {
    const name = option.long?.slice(2) ?? "";
    const written = command.getOptionValue(option.attributeName()) as readonly string[] | undefined;
    if (names.has(name) && Array.isArray(written)) values.set(name, written);
  }
  return values;
}

function optionValues(
  command: Command,
  options: readonly CommandOption[],
): ReadonlyMap<string, string> {
  const written = valuesOf(command, options);
  return new Map(
    options.map(({ name, default: value }) => [name, written.get(name)?.at(-1) ?? value]),
  );
}

/** One line: what is wrong, quoted so that it cannot break the line. */
function mistake(
  error: CommanderError,
  command: Command,
  {
    subcommand,
    args,
  }: { readonly subcommand: Subcommand | undefined; readonly args: readonly string[] },
): string {
  if (error.code === "commander.excessArguments") {
    const written = command.args[subcommand?.takesArgument ? 1 : 0] ?? "";
    const argument = JSON.stringify(written);
    if (subcommand === undefined) {
      return written === args[0]
        ? unknownCommand(written)
        : `unexpected argument ${argument}: kube-ipvs takes flags only`;
    }
    return `unexpected argument ${argument} of ${subcommand.name}`;
  }
  const text = error.message.replace(/^error: /, "").replaceAll(/\s*\n\s*/g, " ");
  return text.replaceAll(/[\p{Cc}\p{Cf}]/gu, "?");
}

function unknownCommand(written: string): string {
  const names = subcommands.map(({ name }) => name);
  const meant = suggest(written, names);
  const advice =
    meant === undefined ? `commands are ${names.join(", ")}` : `Did you mean ${meant}?`;
  return `unknown command ${JSON.stringify(written)} (${advice})`;
}
