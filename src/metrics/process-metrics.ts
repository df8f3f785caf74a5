import { readdirSync, readFileSync } from "node:fs";
import { Counter, Gauge, type Registry } from "prom-client";

/**
 * `process_*` as Go programs expose them, read at the scrape. The library's own set is left aside: it
 * wakes the process a hundred times a second and watches each garbage collection.
 */
export function registerProcessMetrics(registry: Registry): void {
  const registers = [registry];
  new Counter({
    name: "process_cpu_seconds_total",
    help: "User and system CPU time in seconds",
    registers,
    collect() {
      const { user, system } = process.cpuUsage();
      this.reset();
      this.inc((user + system) / 1e6);
    },
  });
  const startSeconds = Math.round(Date.now() / 1000 - process.uptime());
  new Gauge({
    name: "process_start_time_seconds",
    help: "Start of the process in seconds since the epoch",
    registers,
  }).set(startSeconds);
  for (const { name, help, read } of gauges) {
    new Gauge({
      name,
      help,
      registers,
      collect() {
        const value = read();
        if (value !== undefined) this.set(value);
      },
    });
  }
}

const gauges: readonly {
  readonly name: string;
  readonly help: string;
  readonly read: () => number | undefined;
}[] = [
  {
    name: "process_resident_memory_bytes",
    help: "Resident memory in bytes",
    read: () => process.memoryUsage.rss(),
  },
  {
    name: "process_virtual_memory_bytes",
    help: "Virtual memory in bytes",
    read: () => {
      const kibibytes = lineValue("/proc/self/status", /^VmSize:\s+(\d+)/m);
      return kibibytes === undefined ? undefined : kibibytes * 1024;
    },
  },
  {
    name: "process_open_fds",
    help: "Open file descriptors",
    // One of them is the folder being read.
    read: () => attempt(() => readdirSync("/proc/self/fd").length - 1),
  },
  {
    name: "process_max_fds",
    help: "Most file descriptors that may be open",
    read: () => lineValue("/proc/self/limits", /^Max open files\s+(\d+)/m),
  },
  {
    name: "nodejs_heap_size_used_bytes",
    help: "JavaScript heap in use in bytes",
    read: () => process.memoryUsage().heapUsed,
  },
  {
    name: "nodejs_external_memory_bytes",
    help: "Memory of native objects bound to JavaScript objects in bytes",
    read: () => process.memoryUsage().external,
  },
];

function lineValue(path: string, pattern: RegExp): number | undefined {
  const text = attempt(() => readFileSync(path, "utf8"));
  const digits = text?.match(pattern)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** A scrape must not fail for a figure that this system does not tell. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
