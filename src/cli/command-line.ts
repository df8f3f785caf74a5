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
  /** `kube-ipvs plan`: prints what would change in this kernel. */
  | { readonly kind: "plan"; readonly values: FlagValues; readonly format: PlanFormat }
  | { readonly kind: "mistake"; readonly message: string };

export type PlanFormat = "text" | "json";

/** Reads the arguments behind the program's name. */
export function parseCommandLine(args: readonly string[], helpWidth = 100): CommandLine {
  const isPlan = args[0] === "plan";
  const command = isPlan ? makePlanCommand(helpWidth) : makeCommand(helpWidth);
  let helpText = "";
  command.configureOutput({
    writeOut: (text) => {
      helpText += text;
    },
    writeErr: () => {},
  });
  try {
    const flagArgs = isPlan ? args.slice(1) : args;
    command.parse([...normaliseFlags(flagArgs, flags)], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === "commander.helpDisplayed") return { kind: "help", text: helpText };
    return { kind: "mistake", message: mistake(error, command) };
  }
  if (command.getOptionValue("version") !== undefined) return { kind: "version" };
  const values = valuesOf(command);
  if (!isPlan) return { kind: "flags", values };
  return { kind: "plan", values, format: command.getOptionValue("output") as PlanFormat };
}

const description =
  "kube-ipvs implements Kubernetes Services with IPVS in the Linux kernel. It replaces kube-proxy.\n" +
  "It reads Services and EndpointSlices from a cluster or from a directory (--manifests).";

function makePlanCommand(helpWidth: number): Command {
  return makeCommand(helpWidth)
    .name("kube-ipvs plan")
    .description(
      "Prints what a sync would change in this kernel, and changes nothing. It takes the daemon's flags.\n" +
        "Exit code 0: no change, 2: changes, 1: error.",
    )
    .addOption(
      new Option("-o, --output <format>", "form of the output")
        .choices(["text", "json"])
        .default("text")
        .helpGroup("Output:"),
    );
}

function makeCommand(helpWidth: number): Command {
  const command = new Command("kube-ipvs")
    .usage("[flags]")
    .description(description)
    .exitOverride()
    .allowExcessArguments(false)
    .configureHelp({ helpWidth, optionTerm: termOf })
    .addHelpOption(new Option("-h, --help", "print this help and exit").helpGroup("Start:"))
    .addOption(new Option("--version [form]", "print the version and exit").helpGroup("Start:"));
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
