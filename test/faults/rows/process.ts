/** Machine faults that affect the program: clock, CPU time, disk and files. */
import { setTimeout as pause } from "node:timers/promises";
import { requireLabKernel } from "../../support/machine-wide.ts";
import { shell } from "../../support/netns/network-namespace.ts";
import type { FaultyNode } from "../faulty-node.ts";
import type { Row } from "../row.ts";

const setsClock = "sets the machine's clock";
const daySeconds = 86_400;
const blockedMs = 5_000;

/** Jumps and returns, with changes at both times. */
function jump(seconds: number): Row["inject"] {
  return async (node) => {
    const move = (by: number): void => {
      requireLabKernel(setsClock);
      shell(`date -s "@$(($(date +%s) + ${by}))"`);
    };
    move(seconds);
    await node.churn();
    await node.repaired();
    move(-seconds);
    await node.churn();
    return "and back";
  };
}

async function block(node: FaultyNode): Promise<string> {
  node.program.kill("SIGSTOP");
  await node.churn();
  await pause(blockedMs);
  node.program.kill("SIGCONT");
  return `stopped for ${blockedMs / 1_000} s`;
}

const disk = "/run/kube-ipvs";

/** The state file and the log share a disk of 64 kB. */
async function mountSmallDisk(node: FaultyNode): Promise<void> {
  shell(`mkdir -p ${disk}; mount -t tmpfs -o size=64k tmpfs ${disk}`);
  const command = ["sh", "-c", `exec "$@" >>${disk}/log 2>&1`, "sh"];
  await node.restartProgram({ command });
}

async function fillDisk(node: FaultyNode): Promise<string> {
  shell(`cat /dev/zero >${disk}/filler 2>/dev/null || true`);
  try {
    await node.churn();
    await node.repaired();
    await node.churn();
    await node.repaired();
  } finally {
    shell(`rm ${disk}/filler`);
  }
  return "no space left";
}

async function unmountSmallDisk(node: FaultyNode): Promise<void> {
  await node.restartProgram();
  shell(`umount -l ${disk}`);
}

/** Only standard input, output and error have numbers below this limit, so no other file can be opened. */
const fewestFiles = 3;

async function denyFiles(node: FaultyNode): Promise<string> {
  const { pid } = node.program;
  const before = shell(`prlimit --pid ${pid} --nofile --noheadings --raw -o SOFT`).trim();
  const mark = node.mark();
  shell(`prlimit --pid ${pid} --nofile=${fewestFiles}:`);
  try {
    await node.api.command("reset");
    await node.churn();
    await node.until("no file can be opened", () => node.hasPrinted("EMFILE", mark));
  } finally {
    shell(`prlimit --pid ${pid} --nofile=${before}:`);
  }
  return "no connection to the API server could be opened";
}

export const processRows: readonly Row[] = [
  {
    name: "Clock jumps forward",
    short: 1,
    long: 5,
    inject: jump(10 * daySeconds),
    machineWide: setsClock,
  },
  {
    name: "Clock jumps back",
    short: 1,
    long: 5,
    inject: jump(-10 * daySeconds),
    machineWide: setsClock,
  },
  { name: "Event loop blocked", short: 1, long: 5, inject: block },
  {
    name: "Disk full",
    short: 1,
    long: 5,
    before: mountSmallDisk,
    inject: fillDisk,
    after: unmountSmallDisk,
  },
  {
    name: "Out of file descriptors",
    short: 1,
    long: 5,
    inject: denyFiles,
    startsAnew: true,
  },
];
