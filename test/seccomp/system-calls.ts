/** Reads strace's output: names of system calls, and the started programs. */

/** With `-f -qq`, a line starts with the process id. An interrupted call is named where it started. */
const call = /^\d+ +(\w+)\(/gm;
const start = /^\d+ +execve\("([^"]+)"/gm;

/** Sorted names, each once. */
export function namesOfCalls(text: string): readonly string[] {
  return sorted(text.matchAll(call));
}

/** Paths passed to execve(2), without those that do not exist. */
export function startedPrograms(text: string): readonly string[] {
  const found = text.split("\n").filter((line) => !line.includes("ENOENT"));
  return sorted(found.join("\n").matchAll(start));
}

function sorted(matches: Iterable<RegExpMatchArray>): readonly string[] {
  return [...new Set([...matches].map(([, name = ""]) => name))].sort();
}
