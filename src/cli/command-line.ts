import { Command, CommanderError, Option } from "commander";
import type { FlagValues } from "../config/gather-settings.ts";
import { type Flag, flags } from "./flags.ts";
import { normaliseFlags } from "./go-flags.ts";

/** What the arguments ask for. */
export type CommandLine =
  | { readonly kind: "help"; readonly text: string }
  | { readonly kind: "version" }
  /** Values as written; {@link FlagValues} says how. */
  | { readonly kind: "flags"; readonly values: FlagValues }
  | { readonly kind: "mistake"; readonly message: string };

/** Reads the arguments behind the program's name. */
export function parseCommandLine(args: readonly string[], helpWidth = 100): CommandLine {
  const command = makeCommand(helpWidth);
  let helpText = "";
  command.configureOutput({
    writeOut: (text) => {
      helpText += text;
    },
    writeErr: () => {},
  });
  try {
    command.parse([...normaliseFlags(args, flags)], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === "commander.helpDisplayed") return { kind: "help", text: helpText };
    return { kind: "mistake", message: mistake(error, command) };
  }
  if (command.getOptionValue("version") !== undefined) return { kind: "version" };
  return { kind: "flags", values: valuesOf(command) };
}

const description =
  "Balances Kubernetes Services with the kernel's IPVS, in place of kube-proxy.\n" +
  "Services and EndpointSlices come from a cluster, or from a folder (--manifests).";

function makeCommand(helpWidth: number): Command {
  const command = new Command("kube-ipvs")
    .usage("[flags]")
    .description(description)
    .exitOverride()
    .allowExcessArguments(false)
    .configureHelp({ helpWidth, optionTerm: termOf })
    .addHelpOption(new Option("-h, --help", "print this help").helpGroup("Start:"))
    .addOption(new Option("--version [form]", "print the version").helpGroup("Start:"));
  for (const flag of flags) command.addOption(optionOf(flag));
  return command;
}

function optionOf({ name, short, placeholder, help, default: value, group }: Flag): Option {
  const names = short === undefined ? `--${name}` : `-${short}, --${name}`;
  const shownDefault = value === "" || value === "false" ? "" : ` (default ${value})`;
  return new Option(`${names} <${placeholder}>`, `${help}${shownDefault}`)
    .argParser((written: string, before?: readonly string[]) => [...(before ?? []), written])
    .helpGroup(`${group}:`)
    .hideHelp(help === "");
}

/** A switch needs no value. */
function termOf(option: Option): string {
  return option.flags.replace(" <true|false>", "").replace(" [form]", "");
}

function valuesOf(command: Command): FlagValues {
  const values = new Map<string, readonly string[]>();
  for (const option of command.options) {
    const written = command.getOptionValue(option.attributeName()) as readonly string[] | undefined;
    if (Array.isArray(written)) values.set(option.long?.slice(2) ?? "", written);
  }
  return values;
}

/** One line: what is wrong, quoted so that it cannot break the line. */
function mistake(error: CommanderError, command: Command): string {
  if (error.code === "commander.excessArguments") {
    return `unexpected argument ${JSON.stringify(command.args[0])}: kube-ipvs takes flags only`;
  }
  const text = error.message.replace(/^error: /, "").replaceAll(/\s*\n\s*/g, " ");
  return text.replaceAll(/[\p{Cc}\p{Cf}]/gu, "?");
}
