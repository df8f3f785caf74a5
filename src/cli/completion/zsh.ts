import type { CompletedCommand, CompletedOption } from "./completed-commands.ts";

/** `source <(kube-ipvs completion zsh)`, or a file `_kube-ipvs` in a folder of `$fpath`. */
export function zshCompletion(commands: readonly CompletedCommand[]): string {
  const [daemon, ...others] = commands;
  const lines = [
    "#compdef kube-ipvs",
    "# zsh completion of kube-ipvs: source <(kube-ipvs completion zsh)",
    "_kube-ipvs() {",
    "  local -a commands=(",
    ...others.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}`),
    "  )",
    '  if ((CURRENT == 2)) && [[ "$words[2]" != -* ]]; then',
    "    _describe command commands",
    "    return",
    "  fi",
    '  case "$words[2]" in',
    ...others.flatMap((command) => [
      `    ${command.name})`,
      // _arguments offers flags of the first word.
      "      shift words; ((CURRENT--))",
      ...argumentLines(command),
      "      ;;",
    ]),
    "    *)",
    ...(daemon === undefined ? [] : argumentLines(daemon)),
    "      ;;",
    "  esac",
    "}",
    'if [ "$funcstack[1]" = "_kube-ipvs" ]; then _kube-ipvs "$@"; else compdef _kube-ipvs kube-ipvs; fi',
  ];
  return `${lines.join("\n")}\n`;
}

function argumentLines({ options, argumentChoices }: CompletedCommand): readonly string[] {
  const specs = [
    ...options.flatMap(optionSpecs),
    ...(argumentChoices === undefined ? [] : [`1:name:(${argumentChoices.join(" ")})`]),
  ];
  return ["      _arguments \\", `${specs.map((spec) => `        ${quoted(spec)}`).join(" \\\n")}`];
}

function optionSpecs({
  name,
  short,
  help,
  isBoolean,
  placeholder,
  choices,
}: CompletedOption): readonly string[] {
  const message = `[${help.replaceAll(/[[\]\\:]/g, "\\$&")}]`;
  const values = choices === undefined ? "_files" : `(${choices.join(" ")})`;
  const value = isBoolean ? "" : `:${placeholder.replaceAll(":", "\\:")}:${values}`;
  const long = isBoolean ? `--${name}${message}` : `--${name}=${message}${value}`;
  return short === undefined ? [long] : [long, `-${short}${message}${value}`];
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
