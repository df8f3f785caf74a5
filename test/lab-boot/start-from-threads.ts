/** Starts 300 programs from each of four threads in parallel, then prints a variable from its own environment. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { isMainThread, Worker } from "node:worker_threads";

async function startPrograms(): Promise<void> {
  for (let number = 0; number < 300; number++) {
    const env = { ...process.env, NUMBER: String(number) };
    await once(spawn("true", [], { stdio: "ignore", env }), "exit");
  }
}

if (isMainThread) {
  const workers = [1, 2, 3].map(() => new Worker(new URL(import.meta.url)));
  await Promise.all([startPrograms(), ...workers.map((worker) => once(worker, "exit"))]);
  console.log(process.env["KEPT"]);
} else {
  await startPrograms();
}
