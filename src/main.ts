import { readFileSync, writeFileSync, writeSync } from "node:fs";
import { hostname } from "node:os";
import { text } from "node:stream/consumers";
import { forbidCoreDumps } from "../native-shim/index.ts";
import { systemClock } from "./base/clock.ts";
import { systemErrorText } from "./base/system-error-text.ts";
import { uncaughtText } from "./cli/fatal.ts";
import { flushed } from "./cli/flush.ts";
import { programs } from "./cli/programs.ts";
import { runCommandLine } from "./cli/run-command-line.ts";
import { hasColors, terminalWidth } from "./cli/terminal.ts";
import type { LogFormat } from "./config/config.ts";
import { endEarlyOnSignals, exitOnUncaught } from "./daemon/process/life-cycle.ts";

const outlet = { clock: systemClock, pid: process.pid };
let logFormat: LogFormat = "text";
let isDaemon = true;
let waitsForReaders = true;
exitOnUncaught((error) => void writeSync(2, uncaughtText(error, outlet, logFormat)));
endEarlyOnSignals(() => isDaemon);
let isOutputClosed = false;
let outputError: Error | undefined;
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  // Ignore EPIPE, because the reader closed the pipe when it needed no more output (`kube-ipvs --help | head`). Report
  // other errors, such as a full disk.
  if (error.code === "EPIPE") isOutputClosed = true;
  else outputError ??= error;
});
process.stderr.on("error", () => {});

const running = runCommandLine(process.argv.slice(2), {
  ...outlet,
  readFile: (path) => readFileSync(path, "utf8"),
  // A synchronous read fails with EAGAIN if the writer is slow and stdin does not block.
  readInput: () => text(process.stdin),
  writeFile: (path, text) => writeFileSync(path, text),
  writeBytes: (path, bytes) => {
    if (path === "-") process.stdout.write(bytes);
    else writeFileSync(path, bytes, { mode: 0o600 });
  },
  hostname,
  writeOut: (text) => void process.stdout.write(text),
  isOutputClosed: () => isOutputClosed,
  environment: process.env,
  columns: () => terminalWidth(process.stdout, process.env),
  hasColors: hasColors(process.stdout, process.env),
  writeErr: (text) => void process.stderr.write(text),
  forbidCoreDumps,
  noteLoaded: ({ command, config }) => {
    logFormat = config.logging.format;
    isDaemon = command === "run";
    waitsForReaders = !isDaemon;
  },
  programs,
});
/** Exits with `code`. Commands first flush their output. A daemon exits without waiting for log readers. */
async function end(code: number): Promise<never> {
  if (waitsForReaders) await Promise.all([process.stdout, process.stderr].map(flushed));
  if (outputError === undefined) process.exit(code);
  writeSync(2, `kube-ipvs: Cannot write to standard output: ${systemErrorText(outputError)}\n`);
  process.exit(1);
}
// No top-level await: the bundle consists of CommonJS modules; see toolchain/bundle.ts.
void running.then(end);
