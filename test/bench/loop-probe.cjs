// Loaded into the daemon by NODE_OPTIONS: for each half second, writes the longest time that the event loop was blocked
// to the file BENCH_LOOP_FILE. It measures how late a timer of a few milliseconds fires.
const { openSync, writeSync } = require("node:fs");

const resolutionMs = 4;
const reportMs = 500;
const file = openSync(process.env.BENCH_LOOP_FILE, "w");
let lastMs = performance.now();
let reportedMs = lastMs;
let longestMs = 0;

setInterval(() => {
  const nowMs = performance.now();
  longestMs = Math.max(longestMs, nowMs - lastMs - resolutionMs);
  lastMs = nowMs;
  if (nowMs - reportedMs < reportMs) return;
  writeSync(file, `${longestMs.toFixed(2)}\n`);
  [reportedMs, longestMs] = [nowMs, 0];
}, resolutionMs).unref();
