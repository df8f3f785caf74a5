import { readFileSync } from "node:fs";
import { attempt } from "../../base/attempt.ts";

/** The usual limit of a Linux process. POSIX guarantees less. */
const usualLimit = 1_024;

/** Number of files that this process may open. Node.js has already raised the soft limit to the hard limit. */
export function openFileLimit(): number {
  const limits = attempt(() => readFileSync("/proc/self/limits", "utf8")) ?? "";
  const limit = /^Max open files +(\d+|unlimited)/m.exec(limits)?.[1] ?? String(usualLimit);
  return limit === "unlimited" ? Number.MAX_SAFE_INTEGER : Number(limit);
}
