import type { CompletedCommand, CompletedOption } from "./completed-commands.ts";

/** `source <(kube-ipvs completion bash)`; needs no package bash-completion. */
export function bashCompletion(commands: readonly CompletedCommand[]): string {
  const [daemon, ...others] = commands;
  const names = others.map(({ name }) => name);
  const lines = [
    "# bash completion of kube-ipvs: source <(kube-ipvs completion bash)",
    "_kube_ipvs() {",
    `  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD - 1]}`,
    `  local command=\${COMP_WORDS[1]} flags='' values=''`,
    "  # --name=value comes as three words.",
    `  if [[ $current == "=" ]]; then current=""; previous=\${COMP_WORDS[COMP_CWORD - 1]}`,
    `  elif [[ $previous == "=" ]]; then previous=\${COMP_WORDS[COMP_CWORD - 2]}; fi`,
    "  case $command in",
    ...others.map(({ name, options }) => `    ${name}) flags='${flagWords(options)}' ;;`),
    `    *) command='' flags='${flagWords(daemon?.options ?? [])}' ;;`,
    "  esac",
    '  case "$command $previous" in',
    ...others.flatMap(({ name, options }) => options.flatMap((option) => choiceCase(name, option))),
    ...others.flatMap(({ name, argumentChoices }) =>
      argumentChoices === undefined
        ? []
        : [`    '${name} ${name}') values='${argumentChoices.join(" ")}' ;;`],
    ),
    "  esac",
    `  if [[ $current == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$current"))`,
    `  elif [[ -n $values ]]; then COMPREPLY=($(compgen -W "$values" -- "$current"))`,
    `  elif ((COMP_CWORD == 1)); then COMPREPLY=($(compgen -W '${names.join(" ")}' -- "$current"))`,
    "  else COMPREPLY=(); fi",
    "}",
    "complete -o default -F _kube_ipvs kube-ipvs",
  ];
  return `${lines.join("\n")}\n`;
}

function choiceCase(command: string, option: CompletedOption): readonly string[] {
  const { name, short, choices } = option;
  if (option.isBoolean || choices === undefined) return [];
  const names = [`--${name}`, ...(short === undefined ? [] : [`-${short}`])];
  const patterns = names.map((one) => `'${command} ${one}'`).join(" | ");
  return [`    ${patterns}) values='${choices.join(" ")}' ;;`];
}

function flagWords(options: readonly CompletedOption[]): string {
  return options
    .flatMap(({ name, short }) => [`--${name}`, ...(short === undefined ? [] : [`-${short}`])])
    .join(" ");
}
