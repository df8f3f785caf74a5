/** Counts what one change costs besides time, from the daemon's system calls. */
import { setTimeout as pause } from "node:timers/promises";
import { clusterIpOf, positions } from "../../support/many-services.ts";
import { type Case, type CaseContext, type CaseOutcome, withMachine } from "../case.ts";
import { clusterOf, sizeText, slicesOf } from "../cluster.ts";
import type { Machine } from "../machine.ts";
import type { Row } from "../rows.ts";
import { ourCommand, quietFlags, Subject } from "../subject.ts";
import { isSetLook, readSystemCalls, type SystemCalls, straceArguments } from "../system-calls.ts";

const size = { services: 5_000, endpoints: 5 };
const turns = 10;
const servicePort = 80;
const settleMs = 1_500;

export const countCases: readonly Case[] = [
  {
    name: "counts",
    title: `Other costs of one change, counted by strace, ${sizeText(size)}`,
    expectedSeconds: 25,
    run: (context) => run(context),
  },
];

function run(context: CaseContext): Promise<CaseOutcome> {
  context.step("booting");
  return withMachine({ objects: clusterOf(size) }, async (machine, server) => {
    const subject = await Subject.start(machine, ourCommand(server.url, quietFlags));
    context.step("first sync");
    await subject.hasSynced();
    await subject.becomesIdle();
    const change = async (count: number): Promise<void> => {
      for (let index = 0; index < turns; index++) {
        server.apply(...slicesOf(index, positions(count)));
        await machine.hasServers(clusterIpOf(index), servicePort, count);
        await pause(50);
      }
      await pause(settleMs);
    };
    context.step(`adding ${turns} endpoints under strace`);
    const added = await traced(machine, subject.pid, () => change(size.endpoints + 1));
    context.step(`removing ${turns} endpoints under strace`);
    const removed = await traced(machine, subject.pid, () => change(size.endpoints));
    return {
      rows: [
        ...rowsOf(`${turns} new endpoints`, added, turns, 0),
        ...rowsOf(`${turns} removed endpoints`, removed, 2 * turns, turns),
      ],
    };
  });
}

/** Returns the process's system calls while `body` ran. */
async function traced(
  machine: Machine,
  daemon: number,
  body: () => Promise<void>,
): Promise<SystemCalls> {
  const path = "/run/strace";
  const argv = ["strace", ...straceArguments(daemon, path)];
  const { pid } = await machine.ask("start", { argv });
  await machine.ask("waitForOutput", { pid, text: "attached", timeoutMs: 20_000 });
  await pause(500);
  await body();
  await machine.ask("end", { pid, signal: "SIGINT" });
  return readSystemCalls(await machine.ask("read", { path }));
}

function rowsOf(
  what: string,
  calls: SystemCalls,
  changeMessages: number,
  readMessages: number,
): readonly Row[] {
  const row = (name: string, value: number, most: number): Row => ({
    subject: "kube-ipvs",
    what: `${what}: ${name}`,
    kind: "count",
    unit: "",
    value,
    target: { text: `${most}`, most },
  });
  const reads = calls.readMessages.filter((message) => !isSetLook(message));
  return [
    { ...row("netlink messages that modify state", calls.changeMessages.length, changeMessages) },
    row("netlink messages that only read", reads.length, readMessages),
    row("files opened", calls.openedFiles.length, 0),
    row("processes started", calls.startedProcesses.length, 0),
  ];
}
