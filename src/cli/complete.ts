/** Implements `kube-ipvs __complete WORD…`, which shell completion scripts run to complete the last word. Pure. */
import type { CommandOption } from "./command.ts";
import { commands } from "./commands.ts";
import { type Flag, flags } from "./flags.ts";

/**
 * Returns one line per candidate: the word, a tab and its description. Returns an empty text if any word is valid, such
 * as a file name.
 */
export function completionsOf(words: readonly string[]): string {
  // bash passes --name=value as three words.
  const given = words.filter((word) => word !== "=");
  const current = words.at(-1) === "=" ? "" : (given.pop() ?? "");
  const command = commands.find(({ name }) => name === given[0]);
  const own: readonly (CommandOption | Flag)[] = command?.options ?? [];
  const known = command?.hasOwnFlagsOnly === true ? own : [...own, ...flags];
  const previous = own.find(({ name, short }) => isOption(given.at(-1), name, short));
  const candidates = candidatesOf();
  return candidates
    .filter(([word]) => word.startsWith(current))
    .map(([word, help]) => `${word}\t${help}\n`)
    .join("");

  function candidatesOf(): readonly (readonly [word: string, help: string])[] {
    if (previous?.isBoolean === false && "choices" in previous) {
      return (previous.choices ?? []).map((choice) => [choice, ""]);
    }
    if (current.startsWith("-")) {
      const start = command === undefined ? [["--version", "print the version"] as const] : [];
      const shown = known.filter(({ help }) => help !== "");
      return [
        ["--help", "print help"],
        ...start,
        ...shown.map(({ name, help }) => [`--${name}`, help] as const),
      ];
    }
    if (given.length === 0) return commands.map(({ name, summary }) => [name, summary]);
    return given.length === 1 ? (command?.argumentChoices ?? []).map((word) => [word, ""]) : [];
  }
}

function isOption(word: string | undefined, name: string, short: string | undefined): boolean {
  return word === `--${name}` || (short !== undefined && word === `-${short}`);
}
