/** What strace saw: names of system calls, and the programs that were started. */

/** `-f -qq`: a line begins with the process's number. A call that another interrupted is named where it began. */
const call = /^\d+ +(\w+)\(/gm;
const start = /^\d+ +execve\("([^"]+)"/gm;

/** Sorted, each once. */
export function namesOfCalls(text: string): readonly string[] {
  return sorted(text.matchAll(call));
}

/** Paths given to execve(2), those that were not there left out. */
export function startedPrograms(text: string): readonly string[] {
  const found = text.split("\n").filter((line) => !line.includes("ENOENT"));
  return sorted(found.join("\n").matchAll(start));
}

function sorted(matches: Iterable<RegExpMatchArray>): readonly string[] {
  return [...new Set([...matches].map(([, name = ""]) => name))].sort();
}
