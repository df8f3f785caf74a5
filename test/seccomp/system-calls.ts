/** Parses strace output for system call names and started programs. */

/** With `-f -qq`, each line starts with the process ID. An interrupted call is named on the line where it started. */
const call = /^\d+ +(\w+)\(/gm;
const start = /^\d+ +execve\("([^"]+)"/gm;

/** Sorted names without duplicates. */
export function namesOfCalls(text: string): readonly string[] {
  return sorted(text.matchAll(call));
}

/** Paths passed to execve(2), except those that do not exist. */
export function startedPrograms(text: string): readonly string[] {
  const found = text.split("\n").filter((line) => !line.includes("ENOENT"));
  return sorted(found.join("\n").matchAll(start));
}

function sorted(matches: Iterable<RegExpMatchArray>): readonly string[] {
  return [...new Set([...matches].map(([, name = ""]) => name))].sort();
}
