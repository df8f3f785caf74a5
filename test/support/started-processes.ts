import { readdirSync, readFileSync } from "node:fs";

/** The kernel's own threads are children of this one. kthreadd, linux/init/main.c. */
const kernelThreadParent = 2;

/**
 * Counts processes and threads that were started on this machine. The kernel starts threads of its own now and then:
 * those are seen when someone asks, and left out.
 */
export class StartedProcesses {
  readonly #kernelThreads = new Set<string>();

  /** Since the machine booted; differences of two answers count. */
  count(): number {
    for (const id of readdirSync("/proc")) {
      if (/^\d+$/.test(id) && parentOf(id) === kernelThreadParent) this.#kernelThreads.add(id);
    }
    const forks = /^processes (\d+)$/m.exec(readFileSync("/proc/stat", "utf8"))?.[1];
    return Number(forks) - this.#kernelThreads.size;
  }
}

/** Undefined for one that has ended. proc_pid_stat(5): behind the name, which may hold anything, state and parent. */
function parentOf(id: string): number | undefined {
  try {
    const stat = readFileSync(`/proc/${id}/stat`, "utf8");
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
  } catch {
    return undefined;
  }
}
