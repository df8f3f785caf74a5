import { readdirSync, readFileSync } from "node:fs";

/** The parent of the kernel's own threads: kthreadd, linux/init/main.c. */
const kernelThreadParent = 2;

/**
 * Counts processes and threads that were started on this machine. The kernel's own threads are detected when the count
 * is read, and excluded.
 */
export class StartedProcesses {
  readonly #kernelThreads = new Set<string>();

  /** The number since boot. Compare two counts. */
  count(): number {
    for (const id of readdirSync("/proc")) {
      if (/^\d+$/.test(id) && parentOf(id) === kernelThreadParent) this.#kernelThreads.add(id);
    }
    const forks = /^processes (\d+)$/m.exec(readFileSync("/proc/stat", "utf8"))?.[1];
    return Number(forks) - this.#kernelThreads.size;
  }
}

/**
 * Undefined if the process has exited. proc_pid_stat(5): the state and the parent follow the name, which may contain
 * any character.
 */
function parentOf(id: string): number | undefined {
  try {
    const stat = readFileSync(`/proc/${id}/stat`, "utf8");
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
  } catch {
    return undefined;
  }
}
