/** Completion scripts for shells, made of the tables that the arguments are read with. Pure. */
import { bashCompletion } from "./bash.ts";
import { completedCommands } from "./completed-commands.ts";
import { fishCompletion } from "./fish.ts";
import { zshCompletion } from "./zsh.ts";

const scripts = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion } as const;

/** Undefined: there is none for this shell. */
export function completionScript(name: string): string | undefined {
  const make = Object.hasOwn(scripts, name) ? scripts[name as keyof typeof scripts] : undefined;
  return make?.(completedCommands);
}
