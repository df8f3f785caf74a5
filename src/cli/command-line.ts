import { CommanderError, Help, InvalidArgumentError, Option, Command as Parser } from "commander";
import type { FlagValues } from "../config/gather-settings.ts";
import type { Command, CommandOption, Example, GivenArguments } from "./command.ts";
import { commands, daemonExamples } from "./commands.ts";
import { type Flag, flags } from "./flags.ts";
import { normaliseFlags } from "./go-flags.ts";

export type CommandLine =
  | { readonly kind: "help"; readonly text: string }
  | { readonly kind: "version" }
  /** The flags as given, see {@link FlagValues}. */
  | { readonly kind: "flags"; readonly values: FlagValues }
  | CalledCommand
  | {
      readonly kind: "mistake";
      readonly message: string;
      /** `kube-ipvs` or `kube-ipvs plan` if a command was called. Undefined for the daemon. */
      readonly caller?: string;
    };

/** A command with its arguments, such as `kube-ipvs plan -o json --config=FILE`. */
export interface CalledCommand extends GivenArguments {
  readonly kind: "command";
  readonly command: Command;
}

const helpWidth = 80;

/** Parses the arguments that follow the program's name. */
export function parseCommandLine(args: readonly string[]): CommandLine {
  const called = commands.find(({ name }) => name === args[0]);
  const help: string[] = [];
  let result: CommandLine | undefined;
  const parser = parserOf(called, args, (parsed) => {
    result = parsed;
  });
  parser.configureOutput({ writeOut: (text) => void help.push(text), writeErr: () => {} });
  for (const child of parser.commands) child.copyInheritedSettings(parser);
  try {
    const [first = "", ...rest] = args;
    const { options = [] } = called ?? {};
    const flagArgs = normaliseFlags(called === undefined ? args : rest, [...options, ...flags]);
    parser.parse(called === undefined ? [...flagArgs] : [first, ...flagArgs], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === "commander.helpDisplayed") return { kind: "help", text: help.join("") };
    const caller = callerOf(args, called);
    return {
      kind: "mistake",
      message: messageOf(error),
      ...(caller === undefined ? {} : { caller }),
    };
  }
  return result ?? { kind: "version" };
}

/** The prefix of a command's error messages. Undefined if the command logs errors as the daemon does. */
export function callerName({ name, runsOn }: Command): string | undefined {
  return runsOn === true ? undefined : `kube-ipvs ${name}`;
}

/** Treats a first argument that is not a flag as a mistyped command. */
function callerOf(
  [first = "-"]: readonly string[],
  called: Command | undefined,
): string | undefined {
  if (called !== undefined) return callerName(called);
  return first.startsWith("-") ? undefined : "kube-ipvs";
}

/** Only the first argument can be a command, because a word after a flag could be the flag's value. */
function parserOf(
  called: Command | undefined,
  [first = "-"]: readonly string[],
  take: (result: CommandLine) => void,
): Parser {
  const root = described(new Parser("kube-ipvs"), {
    usage: "[command] [flags]",
    description:
      "kube-ipvs implements Kubernetes Services with IPVS in the Linux kernel. It replaces kube-proxy.\n" +
      "It reads Services and EndpointSlices from a cluster or from a directory (--manifests).",
    more: commandsText(),
    examples: daemonExamples,
  });
  if (!first.startsWith("-")) {
    for (const command of commands) {
      const parser = root.command(command.name).summary(command.summary);
      if (command === called) prepare(parser, command, take);
    }
    return root;
  }
  const version = new Option("--version [form]", "print the version and exit");
  root.addOption(version.helpGroup("Start:"));
  for (const flag of flags) root.addOption(optionOf(flag));
  return root.action(() => {
    if (root.getOptionValue("version") === undefined) {
      take({ kind: "flags", values: valuesOf(root, flags) });
    }
  });
}

function prepare(parser: Parser, command: Command, take: (result: CommandLine) => void): void {
  const { options, hasOwnFlagsOnly, mostArguments = 0 } = command;
  const more = hasOwnFlagsOnly
    ? ""
    : "\nThis command also accepts the daemon's flags; see kube-ipvs --help.\n";
  described(parser, { usage: "[flags]", ...command, more });
  for (let number = 1; number <= mostArguments; number += 1)
    parser.argument(`[argument-${number}]`);
  for (const option of options) parser.addOption(optionOf(option));
  if (!hasOwnFlagsOnly) for (const flag of flags) parser.addOption(optionOf(flag).hideHelp());
  parser.action(() => {
    const written = valuesOf(parser, options);
    const values = options.map(
      ({ name, default: value }) => [name, written.get(name)?.at(-1) ?? value] as const,
    );
    take({
      kind: "command",
      command,
      values: valuesOf(parser, flags),
      options: new Map(values),
      arguments: parser.args,
    });
  });
}

function described(
  parser: Parser,
  text: Pick<Command, "description" | "examples"> & {
    readonly usage: string;
    readonly more: string;
  },
): Parser {
  return parser
    .usage(text.usage)
    .description(text.description)
    .exitOverride()
    .helpCommand(false)
    .allowExcessArguments(false)
    .configureHelp({
      helpWidth,
      optionTerm: termOf,
      formatItem: itemText,
      visibleCommands: () => [],
    })
    .addHelpText("after", `${text.more}${examplesText(text.examples)}`)
    .addHelpOption(new Option("-h, --help", "print this help and exit").helpGroup("Start:"));
}

/** Puts descriptions below their options if the longest option leaves too few columns beside it. */
function itemText(term: string, termWidth: number, description: string, help: Help): string {
  if (termWidth < helpWidth / 2) {
    return new Help().formatItem(term, termWidth, description, help);
  }
  const indent = " ".repeat(8);
  const lines = help
    .boxWrap(description, helpWidth - indent.length)
    .replaceAll("\n", `\n${indent}`);
  return `  ${term}\n${indent}${lines}`;
}

function commandsText(): string {
  const width = Math.max(...commands.map(({ name }) => name.length));
  const lines = commands.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}\n`);
  return `\nCommands (each has --help; without a command, kube-ipvs runs as the daemon):\n${lines.join("")}`;
}

function examplesText(examples: readonly Example[]): string {
  const lines = examples.map(({ command, purpose }) => `  # ${purpose}\n  ${command}\n`);
  // commander appends a line end.
  return `\nExamples:\n${lines.join("\n").trimEnd()}`;
}

function optionOf(flag: Flag | CommandOption): Option {
  const { name, short, placeholder, help, default: value } = flag;
  const group = "group" in flag ? flag.group : "Output";
  const choices = "choices" in flag ? flag.choices : undefined;
  const names = short === undefined ? `--${name}` : `-${short}, --${name}`;
  const quoted = value === "default" ? `"${value}"` : value;
  const shownDefault = value === "" || value === "false" ? "" : ` (default ${quoted})`;
  return new Option(`${names} <${placeholder}>`, `${help}${shownDefault}`)
    .argParser((written: string, before?: readonly string[]) => {
      if (choices === undefined || choices.includes(written)) return [...(before ?? []), written];
      throw new InvalidArgumentError(`Allowed choices are ${choices.join(", ")}.`);
    })
    .helpGroup(`${group}:`)
    .hideHelp(help === "");
}

/** Omits the placeholders of optional values. */
function termOf(option: Option): string {
  return option.flags.replace(" <true|false>", "").replace(" [form]", "");
}

function valuesOf(parser: Parser, table: readonly Pick<Flag, "name">[]): FlagValues {
  const names = new Set(table.map(({ name }) => name));
  const values = new Map<string, readonly string[]>();
  for (const option of parser.options) {
    const name = option.long?.slice(2) ?? "";
    const written = parser.getOptionValue(option.attributeName()) as readonly string[] | undefined;
    if (names.has(name) && Array.isArray(written)) values.set(name, written);
  }
  return values;
}

/** Formats the message as one line. Replaces control characters, so that arguments cannot break the line. */
function messageOf({ code, message }: CommanderError): string {
  const text = message.replace(/^error: /, "").replaceAll(/\s*\n\s*/g, " ");
  const names = commands.map(({ name }) => name).join(", ");
  const advice = code === "commander.unknownCommand" ? ` (commands are ${names})` : "";
  return `${text.replaceAll(/[\p{Cc}\p{Cf}]/gu, "?")}${advice}`;
}
