// Loaded into the program under soak: once a second, writes its timers, handles, memory and event-loop delays. The
// delays cover the whole run, including time during which the process is stopped.
const { renameSync, writeFileSync } = require("node:fs");
const { monitorEventLoopDelay } = require("node:perf_hooks");

const path = process.env.SOAK_PROBE;
const resolutionMs = 10;
const delay = monitorEventLoopDelay({ resolution: resolutionMs });
delay.enable();

function write() {
  const active = {};
  for (const kind of process.getActiveResourcesInfo()) active[kind] = (active[kind] ?? 0) + 1;
  // Measures from one timer turn to the next.
  const late = (ns) => Math.max(0, ns / 1e6 - resolutionMs);
  const percentile = (share) => late(delay.percentile(share));
  const delayMs = {
    p50: percentile(50),
    p99: percentile(99),
    p999: percentile(99.9),
    worst: late(delay.max),
  };
  const { heapUsed, external, rss } = process.memoryUsage();
  const text = JSON.stringify({ active, delayMs, heapUsed, external, rss });
  // Readers always see a complete file.
  writeFileSync(`${path}.new`, text);
  renameSync(`${path}.new`, path);
}

setInterval(() => {
  try {
    write();
  } catch {
    // No file can be opened, which is one of the faults.
  }
}, 1_000).unref();
