import { readdirSync, readFileSync } from "node:fs";
import { Counter, Gauge, type Registry } from "prom-client";
import { attempt } from "../base/attempt.ts";
import type { MetricRow } from "./metric-table.ts";

/** A process metric. `read` returns undefined if this system does not provide the value. */
export interface ProcessMetric extends MetricRow {
  readonly type: "counter" | "gauge";
  readonly read: () => number | undefined;
}

/**
 * Registers `process_*` metrics as in Go programs, read at each scrape. The library's default metrics are not used,
 * because they wake the process 100 times per second and observe each garbage collection.
 */
export function registerProcessMetrics(registry: Registry): void {
  for (const { name, help, type, read } of processMetrics) {
    const collect = function (this: Counter | Gauge): void {
      this.reset();
      this.inc(read() ?? 0);
    };
    new (type === "counter" ? Counter : Gauge)({ name, help, registers: [registry], collect });
  }
}

/** The value that Go programs expose for an unlimited resource. */
const noLimit = 2 ** 64 - 1;
const startSeconds: number = Math.round(Date.now() / 1000 - process.uptime());

export const processMetrics: readonly ProcessMetric[] = [
  {
    name: "process_cpu_seconds_total",
    type: "counter",
    help: "Total user and system CPU time spent in seconds",
    read: () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1e6;
    },
  },
  {
    name: "process_start_time_seconds",
    type: "gauge",
    help: "Start time of the process in seconds since the epoch",
    read: () => startSeconds,
  },
  {
    name: "process_resident_memory_bytes",
    type: "gauge",
    help: "Resident memory size in bytes",
    read: () => process.memoryUsage.rss(),
  },
  {
    name: "process_virtual_memory_bytes",
    type: "gauge",
    help: "Virtual memory size in bytes",
    read: () => {
      const kibibytes = lineValue("/proc/self/status", /^VmSize:\s+(\d+)/m);
      return kibibytes === undefined ? undefined : kibibytes * 1024;
    },
  },
  {
    name: "process_virtual_memory_max_bytes",
    type: "gauge",
    help: "Maximum amount of virtual memory available in bytes",
    read: () => lineValue("/proc/self/limits", /^Max address space\s+(\d+|unlimited)/m),
  },
  {
    name: "process_open_fds",
    type: "gauge",
    help: "Number of open file descriptors",
    // Subtracts the descriptor of /proc/self/fd itself.
    read: () => attempt(() => readdirSync("/proc/self/fd").length - 1),
  },
  {
    name: "process_max_fds",
    type: "gauge",
    help: "Maximum number of open file descriptors",
    read: () => lineValue("/proc/self/limits", /^Max open files\s+(\d+|unlimited)/m),
  },
  {
    name: "process_network_receive_bytes_total",
    type: "counter",
    help: "Number of bytes received over IP in the process's network namespace",
    read: () => networkOctets("InOctets"),
  },
  {
    name: "process_network_transmit_bytes_total",
    type: "counter",
    help: "Number of bytes sent over IP in the process's network namespace",
    read: () => networkOctets("OutOctets"),
  },
  {
    name: "nodejs_heap_size_used_bytes",
    type: "gauge",
    help: "JavaScript heap in use, in bytes",
    read: () => process.memoryUsage().heapUsed,
  },
  {
    name: "nodejs_external_memory_bytes",
    type: "gauge",
    help: "Memory of native objects bound to JavaScript objects, in bytes",
    read: () => process.memoryUsage().external,
  },
];

function lineValue(path: string, pattern: RegExp): number | undefined {
  const text = attempt(() => readFileSync(path, "utf8"));
  const word = text?.match(pattern)?.[1];
  if (word === "unlimited") return noLimit;
  return word === undefined ? undefined : Number(word);
}

/** Reads a field of the IpExt lines in /proc/self/net/netstat. The first line contains names, the second one values. */
function networkOctets(field: string): number | undefined {
  const text = attempt(() => readFileSync("/proc/self/net/netstat", "utf8"));
  const [names, values] = text?.split("\n").filter((line) => line.startsWith("IpExt: ")) ?? [];
  const column = names?.split(" ").indexOf(field) ?? -1;
  return column < 0 ? undefined : Number(values?.split(" ")[column]);
}
