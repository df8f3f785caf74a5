import { exitCodes } from "../../answer/answer.ts";
import type { Command } from "../command.ts";

/** Each script runs `kube-ipvs __complete WORD…`, which prints one candidate with its description per line. */
const scripts: Readonly<Record<string, string>> = {
  bash: `# bash completion of kube-ipvs: source <(kube-ipvs completion bash)
_kube_ipvs() {
  local IFS=$'\\n' words=("\${COMP_WORDS[@]:1:COMP_CWORD}")
  COMPREPLY=($(kube-ipvs __complete "\${words[@]}" 2>/dev/null | cut -f1))
}
complete -o default -F _kube_ipvs kube-ipvs
`,
  zsh: `#compdef kube-ipvs
# zsh completion of kube-ipvs: source <(kube-ipvs completion zsh)
_kube-ipvs() {
  local -a found=("\${(@f)$(kube-ipvs __complete "\${(@)words[2,CURRENT]}" 2>/dev/null | sed 's/:/\\\\:/g; s/\\t/:/')}")
  if [ -n "$found" ]; then _describe kube-ipvs found; else _files; fi
}
if [ "$funcstack[1]" = "_kube-ipvs" ]; then _kube-ipvs "$@"; else compdef _kube-ipvs kube-ipvs; fi
`,
  fish: `# fish completion of kube-ipvs: kube-ipvs completion fish | source
complete -c kube-ipvs -a '(kube-ipvs __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
};

export const completionCommand: Command = {
  name: "completion",
  usage: "bash|zsh|fish",
  summary: "print a shell completion script",
  description: "Prints a shell script that completes commands and flags.",
  options: [],
  hasOwnFlagsOnly: true,
  needsNoMode: true,
  mostArguments: 1,
  argumentChoices: Object.keys(scripts),
  examples: [
    {
      command: "kube-ipvs completion bash > /etc/bash_completion.d/kube-ipvs",
      purpose: "for all bash sessions on this machine",
    },
    { command: "source <(kube-ipvs completion zsh)", purpose: "for the current zsh session" },
    { command: "kube-ipvs completion fish | source", purpose: "for the current fish session" },
  ],
  run: async ({ arguments: [shell = ""], writeOut }) => {
    const script = Object.hasOwn(scripts, shell) ? scripts[shell] : undefined;
    if (script === undefined) {
      const written =
        shell === "" ? "no shell given" : `no completion for ${JSON.stringify(shell)}`;
      throw new Error(`${written}; choose bash, zsh or fish (see --help)`);
    }
    writeOut(script);
    return exitCodes.fine;
  },
};
