/** Finds commands in guides and the README, in blocks and in running text. Pure. */
import { shellBlocksOf } from "./guides.ts";

/** Every command of a page: logical lines of blocks, commands after a prompt, and text in backquotes. */
export function commandsOf(text: string): readonly string[] {
  const lines = shellBlocksOf(text).flatMap(commandLinesOf);
  const typed = [...text.matchAll(/^\$ (.*)$/gm)].map(([, line = ""]) => line);
  const prose = text.replaceAll(/^ *```.*?^ *```$/gms, "").replaceAll(/\s*\n\s*/g, " ");
  const inline = [...prose.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code);
  return [...lines, ...typed, ...inline];
}

/** The logical lines of a block, without comments. */
function commandLinesOf(block: string): readonly string[] {
  const lines = block.replaceAll(/\\\n\s*/g, "").split("\n");
  return lines.map((line) => line.replace(/(?:^|\s)#.*$/, "").trim()).filter((line) => line !== "");
}

/** The arguments of each `program` call, also after a quoted variable, up to a pipe, a redirection or another command. */
export function argumentsOf(program: string, command: string): readonly (readonly string[])[] {
  const words = command.split(/\s+/);
  return words.flatMap((word, index) => {
    const isCall = index === 0 || /^(?:--|&&|\||sudo)$|'$/.test(words[index - 1] ?? "");
    if (word !== program || !isCall) return [];
    const rest = words.slice(index + 1);
    const end = rest.findIndex((argument) => /^(?:[|;&]|\$\(|\d?[<>])/.test(argument));
    return [end === -1 ? rest : rest.slice(0, end)];
  });
}
