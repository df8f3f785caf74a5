/** Startup on the host itself: CPU time until the first watch. Does not need IPVS. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { ApiServer } from "../../support/api-server/api-server.ts";
import { shell } from "../../support/netns/network-namespace.ts";
import { node } from "../../support/objects.ts";
import type { Case, CaseContext, CaseOutcome } from "../case.ts";
import { hostEnvironment } from "../pretended-ipvs.ts";
import { quantile } from "../rows.ts";
import { ourCommand } from "../subject.ts";

const runs = 20;
const timeoutMs = 20_000;

export const startUpCases: readonly Case[] = [
  {
    name: "start-up",
    title: "Startup to the first watch, on the host",
    expectedSeconds: 15,
    run: (context) => run(context),
  },
];

interface Start {
  readonly cpuMs: number;
  readonly elapsedMs: number;
}

async function run(context: CaseContext): Promise<CaseOutcome> {
  shell("ip link set lo up");
  const starts: Start[] = [];
  context.step("filling the compile cache");
  await startOnce("SIGTERM");
  for (let turn = 1; turn <= runs; turn++) {
    context.step(`start ${turn} of ${runs}`);
    starts.push(await startOnce("SIGKILL"));
  }
  const cpu = starts.map(({ cpuMs }) => cpuMs);
  const elapsed = starts.map(({ elapsedMs }) => elapsedMs);
  const mean = cpu.reduce((total, one) => total + one, 0) / cpu.length;
  return {
    rows: [
      {
        subject: "kube-ipvs",
        what: `CPU, mean of ${runs} starts`,
        kind: "figure",
        unit: "ms",
        value: mean,
        samples: cpu,
        target: { text: "< 250 ms", most: 250 },
      },
      {
        subject: "kube-ipvs",
        what: "from process start to the first watch",
        kind: "figure",
        unit: "ms",
        value: quantile(elapsed, 0.5),
        samples: elapsed,
      },
    ],
  };
}

/** After SIGTERM, the program stores its compiled code for the next start; after SIGKILL, it does not. */
async function startOnce(signal: "SIGTERM" | "SIGKILL"): Promise<Start> {
  const server = await ApiServer.start({ objects: [node()] });
  const { argv } = ourCommand(server.url);
  const [file = "", ...args] = argv;
  const beganMs = performance.now();
  const child = spawn(file, args, { stdio: ["ignore", "pipe", "pipe"], env: hostEnvironment() });
  const ended = new Promise((resolve) => child.once("close", resolve));
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      output += chunk.toString();
    });
  }
  try {
    while (server.openWatches === 0) {
      const isOver = child.exitCode !== null || performance.now() - beganMs > timeoutMs;
      if (isOver) throw new Error(`No watch: ${output}`);
      await pause(1);
    }
    return { cpuMs: cpuMsOf(child.pid ?? 0), elapsedMs: performance.now() - beganMs };
  } finally {
    child.kill(signal);
    await ended;
    await server.stop();
  }
}

function cpuMsOf(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return [11, 12, 13, 14].reduce((total, index) => total + Number(fields[index]) * 10, 0);
}
