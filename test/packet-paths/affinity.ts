/**
 * Session affinity: one client's connections over time. Takes half a minute and runs in parallel with the other
 * sections.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { Explainer } from "./explained.ts";
import { type Column, columnName, type Path, type Row, type Section, transports } from "./path.ts";
import type { Probe } from "./probe.ts";
import { affinitySeconds, destinationOf, type Frontend } from "./services.ts";
import { connectFrom, type Stations } from "./walk.ts";

const service = "affinity";
const expected = "kept, then another";
/** Each pause is shorter than the timeout, but their sum is longer. */
const breaksMs: readonly number[] = [0, 0, affinitySeconds * 600, affinitySeconds * 600];
/** The kernel checks its timers a little later. */
const expiryMs: number = affinitySeconds * 1_000 + 4_000;
const answerMs = 5_000;

/** One client for each virtual server, because round-robin order across clients is not tested here. */
const clients: readonly (readonly [Frontend, from: string])[] = [
  ["cluster IP", "pod"],
  ["node port", "client"],
  ["load-balancer IP", "client"],
  ["external IP", "node"],
];

export const affinity: Section = {
  title: "Session affinity",
  text: [
    `The Service has \`sessionAffinity: ClientIP\`, a timeout of ${affinitySeconds} s, and two endpoints. A client ` +
      `connects five times, with pauses of ${Math.round(affinitySeconds * 6) / 10} s before the last two ` +
      "connections. Each new connection restarts the timeout, so all connections reach one endpoint. After 12 " +
      "s without a connection, round robin chooses again.",
    "The timeout starts when IPVS forgets the last connection: 10 s after a reset, 120 s after a graceful " +
      "close, or after the UDP timeout. The kernel checks this only every 60 s.",
  ],
  headings: ["address", "from"],
  columns: transports,
  paths: clients.map(([frontend, from]) => ({
    labels: [frontend, from],
    from,
    target: { kind: "service", service, frontend },
    expected,
  })),
};

export async function walkAffinity(
  stations: Stations,
  explainer: Explainer,
): Promise<readonly Row[]> {
  const explained = await explainer.explain(affinity.paths, affinity.columns);
  return await Promise.all(
    affinity.paths.map(async (path) => {
      const cells = affinity.columns.map(async (column) => {
        return [columnName(column), await tryCell(path, column, stations)] as const;
      });
      const outcomes = new Map(await Promise.all(cells));
      return { path, outcomes, explained: explained.get(path) ?? new Map() };
    }),
  );
}

async function tryCell(
  { from, target }: Path,
  { protocol, family }: Column,
  stations: Stations,
): Promise<string> {
  if (protocol === "ping" || target.kind !== "service")
    throw new Error("Not supported for affinity");
  const probe: Probe = {
    protocol,
    ...destinationOf(target.service, target.frontend, family),
    payloadBytes: 1,
    answerBytes: 1,
    timeoutMs: answerMs,
  };
  const connect = async (afterMs: number): Promise<string> => {
    await pause(afterMs);
    const outcome = await connectFrom(stations, from, probe);
    return outcome.kind === "answer" ? outcome.answer.backend : outcome.kind;
  };
  const first = await connect(0);
  const others: string[] = [];
  for (const breakMs of breaksMs) others.push(await connect(breakMs));
  if (others.some((other) => other !== first)) return `not kept: ${[first, ...others].join(" ")}`;
  return (await connect(expiryMs)) === first ? "kept too long" : "kept, then another";
}
