/** What the shells are to complete: commands, their options, and values where there is a choice. */
import { flags } from "../flags.ts";
import { type CommandOption, type Subcommand, subcommands } from "../subcommands.ts";

/** Without choices any value; files are offered. */
export type CompletedOption = Omit<CommandOption, "default">;

/** Without a name: the daemon itself. */
export interface CompletedCommand extends Pick<Subcommand, "name" | "summary" | "argumentChoices"> {
  readonly options: readonly CompletedOption[];
}

const helpOption: CompletedOption = {
  ...{ name: "help", short: "h", help: "print help" },
  ...{ isBoolean: true, placeholder: "" },
};
const versionOption: CompletedOption = {
  ...{ name: "version", help: "print the version" },
  ...{ isBoolean: true, placeholder: "" },
};
const daemonFlags = flags.filter(({ help }) => help !== "");

/** The daemon first. */
export const completedCommands: readonly CompletedCommand[] = [
  { name: "", summary: "the daemon", options: [helpOption, versionOption, ...daemonFlags] },
  ...subcommands.map((command) => ({
    ...command,
    options: [helpOption, ...command.options, ...(command.hasOwnFlagsOnly ? [] : daemonFlags)],
  })),
];
