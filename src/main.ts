import { readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { forbidCoreDumps, releaseFilePages } from "../native-shim/index.ts";
import { systemClock } from "./base/clock.ts";
import type { SpareMemory } from "./base/spare-memory.ts";
import { runCommandLine } from "./cli/run-command-line.ts";
import { collectInSteps, keepRoomInHeap, spareHeap } from "./daemon/engine.ts";
import { exitOnUncaught } from "./daemon/life-cycle.ts";

exitOnUncaught();
// A reader that went away (`kube-ipvs --help | head`) is no reason to stop.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});

let hasSynced = false;
const spareMemory: SpareMemory = (phase) => {
  if (phase === "before-lists") spareHeap();
  releaseFilePages();
  if (phase !== "after-full-sync" || hasSynced) return;
  hasSynced = true;
  keepRoomInHeap();
  collectInSteps();
};

const running = runCommandLine(process.argv.slice(2), {
  clock: systemClock,
  pid: process.pid,
  readFile: (path) => readFileSync(path, "utf8"),
  writeFile: (path, text) => writeFileSync(path, text),
  hostname,
  writeOut: (text) => void process.stdout.write(text),
  writeErr: (text) => void process.stderr.write(text),
  spareMemory,
  forbidCoreDumps,
  loadCommands: () => import("./daemon/run.ts"),
});
// No await up here: the bundle is made of CommonJS modules, see toolchain/bundle.ts.
void running.then((code) => process.exit(code));
