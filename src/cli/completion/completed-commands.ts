/** What the shells are to complete: commands, their options, and values where there is a choice. */
import { type Flag, flags } from "../flags.ts";
import { type CommandOption, subcommands } from "../subcommands.ts";

export interface CompletedOption {
  /** Without dashes. */
  readonly name: string;
  readonly short?: string;
  readonly help: string;
  /** Needs no value. */
  readonly isSwitch: boolean;
  readonly placeholder: string;
  /** Empty: any value; files are offered. */
  readonly choices: readonly string[];
}

export interface CompletedCommand {
  /** Empty: the daemon itself. */
  readonly name: string;
  readonly summary: string;
  readonly options: readonly CompletedOption[];
  /** Of its first argument. */
  readonly argumentChoices: readonly string[];
}

const common: readonly CompletedOption[] = [
  { name: "help", short: "h", help: "print help", isSwitch: true, placeholder: "", choices: [] },
];

/** The daemon first. */
export const completedCommands: readonly CompletedCommand[] = [
  {
    name: "",
    summary: "the daemon",
    options: [
      ...common,
      { name: "version", help: "print the version", isSwitch: true, placeholder: "", choices: [] },
      ...flags.filter(({ help }) => help !== "").map(completed),
    ],
    argumentChoices: [],
  },
  ...subcommands.map(({ name, summary, options, takesDaemonFlags, argumentChoices = [] }) => ({
    name,
    summary,
    options: [
      ...common,
      ...options.map(completed),
      ...(takesDaemonFlags ? flags.filter(({ help }) => help !== "").map(completed) : []),
    ],
    argumentChoices,
  })),
];

function completed(flag: Flag | CommandOption): CompletedOption {
  const { name, short, help, isBoolean, placeholder } = flag;
  return {
    name,
    ...(short === undefined ? {} : { short }),
    help,
    isSwitch: isBoolean,
    placeholder,
    choices: !isBoolean && "choices" in flag ? (flag.choices ?? []) : [],
  };
}
