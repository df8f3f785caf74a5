// Required into the program while it soaks: writes its timers, handles, memory and event-loop delay once a second.
const { writeFileSync } = require("node:fs");
const { monitorEventLoopDelay } = require("node:perf_hooks");

const delay = monitorEventLoopDelay({ resolution: 5 });
delay.enable();
setInterval(() => {
  const active = {};
  for (const kind of process.getActiveResourcesInfo()) active[kind] = (active[kind] ?? 0) + 1;
  const percentile = (share) => delay.percentile(share) / 1e6;
  const delayMs = { p50: percentile(50), p99: percentile(99), worst: delay.max / 1e6 };
  const { heapUsed, rss } = process.memoryUsage();
  writeFileSync(process.env.SOAK_PROBE, JSON.stringify({ active, delayMs, heapUsed, rss }));
}, 1_000).unref();
