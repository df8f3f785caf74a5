/** Requirements of a lab kernel on this machine: memory, processors, paths. */
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";

/** Suites use up to 692 MB (measured). */
const neededMegabytes = 700;

/** Returns one line that names a lab kernel's missing requirements. Undefined if none is missing. */
export function findShortage(
  paths: readonly string[] = [import.meta.dirname, tmpdir()],
  availableBytes: number = process.availableMemory(),
): string | undefined {
  // Paths become kernel parameters and mount options.
  const path = paths.find((one) => /[\s,]/.test(one));
  if (path !== undefined)
    return `the path ${path} has a space or a comma, which a lab kernel cannot take: move the clone, or set TMPDIR to another folder`;
  const megabytes = Math.floor(availableBytes / 2 ** 20);
  if (megabytes < neededMegabytes)
    return `a lab kernel needs ${neededMegabytes} MB of free memory, and ${megabytes} MB are available`;
  return undefined;
}

/** Returns how many of the `wanted` lab kernels fit in memory at the same time, at least one. */
export function kernelsInMemory(
  wanted: number,
  availableBytes: number = process.availableMemory(),
): number {
  const room = Math.floor(availableBytes / (neededMegabytes * 2 ** 20));
  return Math.max(1, Math.min(wanted, room));
}

/** Returns the processor with this index among those that this process may use. */
export function allowedCpu(
  index: number,
  status: string = readFileSync("/proc/self/status", "utf8"),
): number {
  const list = /^Cpus_allowed_list:\t(.*)$/m.exec(status)?.[1] ?? "0";
  const cpus = list.split(",").flatMap((range) => {
    const [first = 0, last = first] = range.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, offset) => first + offset);
  });
  return cpus[index % cpus.length] ?? 0;
}
