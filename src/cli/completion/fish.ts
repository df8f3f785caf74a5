import type { CompletedCommand, CompletedOption } from "./completed-commands.ts";

/** `kube-ipvs completion fish | source`. */
export function fishCompletion(commands: readonly CompletedCommand[]): string {
  const names = commands.flatMap(({ name }) => (name === "" ? [] : [name]));
  const noCommand = `not __fish_seen_subcommand_from ${names.join(" ")}`;
  const lines = [
    "# fish completion of kube-ipvs: kube-ipvs completion fish | source",
    ...commands.flatMap(({ name, summary, options, argumentChoices }) => {
      const condition = name === "" ? noCommand : `__fish_seen_subcommand_from ${name}`;
      return [
        ...(name === "" ? [] : [line(noCommand, `-f -a ${name}`, summary)]),
        ...(argumentChoices === undefined
          ? []
          : [line(condition, `-f -a ${quoted(argumentChoices.join(" "))}`, summary)]),
        ...options.map((option) => line(condition, optionWords(option), option.help)),
      ];
    }),
  ];
  return `${lines.join("\n")}\n`;
}

function line(condition: string, words: string, description: string): string {
  return `complete -c kube-ipvs -n ${quoted(condition)} ${words} -d ${quoted(description)}`;
}

function optionWords({ name, short, isBoolean, choices }: CompletedOption): string {
  const names = short === undefined ? `-l ${name}` : `-l ${name} -s ${short}`;
  if (isBoolean) return names;
  return choices === undefined ? `${names} -r` : `${names} -x -a ${quoted(choices.join(" "))}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
