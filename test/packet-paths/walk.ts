/** Tries every path of a section and returns the outcomes as text. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { shell } from "../support/netns/network-namespace.ts";
import type { Explained, Explainer } from "./explained.ts";
import {
  type Column,
  type ColumnName,
  columnName,
  expectedIn,
  type Path,
  type Section,
  type SectionResult,
} from "./path.ts";
import { ownerOf } from "./places.ts";
import type { Outcome, Probe } from "./probe.ts";
import { type Destination, destinationIn } from "./services.ts";
import type { Station } from "./station.ts";

export type Stations = ReadonlyMap<string, Station>;

/** How long to wait if silence is expected. If an answer is expected, a slow machine gets more time. */
const silenceMs = 1_200;
const answerMs = 10_000;
/** Timeout if some connections are answered and others are not. */
const mixedMs = 3_000;
const lanes = 24;

interface Cell {
  readonly path: Path;
  readonly column: Column;
  readonly destination: Destination;
}

export interface WalkOptions {
  /**
   * If endpoints are chosen at random, the maximum number of connections until every expected endpoint is seen. If absent,
   * endpoints are chosen by round robin.
   */
  readonly mostProbes?: number;
  /** Whether all addresses of a Service share one round-robin order. If absent, each address has its own. */
  readonly isTurnShared?: boolean;
}

/** Runs in the node's namespace. */
export async function walk(
  section: Section,
  stations: Stations,
  explainer: Explainer,
  options: WalkOptions = {},
): Promise<SectionResult> {
  const outcomesByPath = new Map(
    section.paths.map((path) => [path, new Map<ColumnName, string>()] as const),
  );
  const queues = queuesOf(section, options);
  const lane = async (): Promise<void> => {
    for (let queue = queues.pop(); queue !== undefined; queue = queues.pop()) {
      for (const cell of queue) {
        const text = await tryCell(cell, stations, options);
        outcomesByPath.get(cell.path)?.set(columnName(cell.column), text);
      }
    }
  };
  let explained: ReadonlyMap<Path, Explained> = new Map();
  shell(section.before ?? "");
  try {
    explained = await explainer.explain(section.paths, section.columns);
    await Promise.all(Array.from({ length: lanes }, lane));
  } finally {
    shell(section.after ?? "");
  }
  const rows = [...outcomesByPath].map(([path, outcomes]) => ({
    ...{ path, outcomes },
    explained: explained.get(path) ?? new Map(),
  }));
  return { section, rows };
}

/**
 * Cells by virtual server or by Service, because another client at the same time would change the round-robin order.
 */
function queuesOf(
  { paths, columns, sharesServers }: Section,
  { isTurnShared = false }: WalkOptions,
): Cell[][] {
  const queues = new Map<string, Cell[]>();
  for (const path of paths) {
    for (const column of columns) {
      const destination = destinationIn(path.target, column.family);
      const server =
        isTurnShared && path.target.kind === "service"
          ? `${column.family} ${path.target.service}`
          : `${destination.address} ${destination.port}`;
      const key = sharesServers === true ? server : `${column.protocol} ${server}`;
      const queue = queues.get(key) ?? [];
      queue.push({ path, column, destination });
      queues.set(key, queue);
    }
  }
  return [...queues.values()];
}

async function tryCell(
  { path, column, destination }: Cell,
  stations: Stations,
  { mostProbes = 0 }: WalkOptions,
): Promise<string> {
  const { protocol, family } = column;
  if (protocol === "ping") return await ping(path.from, destination.address);
  const expected = expectedIn(path, column);
  const source = path.source?.[family];
  const probe: Probe = {
    protocol,
    ...destination,
    ...(source === undefined ? {} : { source }),
    payloadBytes: path.payload?.[protocol] ?? 1,
    answerBytes: path.answer?.[protocol] ?? 1,
    timeoutMs: timeoutFor(expected),
  };
  if (path.isRehearsed === true && protocol === "UDP") {
    await connectFrom(stations, path.from, { ...probe, timeoutMs: silenceMs });
  }
  const outcomes = new Set<string>();
  const isSeen = (outcome: string): boolean => outcomes.has(outcome);
  const areAllSeen = (): boolean => expected.split(", ").every(isSeen);
  for (
    let made = 0;
    made < probesFor(expected) || (made < mostProbes && !areAllSeen());
    made += 1
  ) {
    outcomes.add(outcomeText(await connectFrom(stations, path.from, probe), probe));
  }
  return [...outcomes].sort().join(", ");
}

function timeoutFor(expected: string): number {
  if (expected === "silence") return silenceMs;
  return expected.includes("silence") ? mixedMs : answerMs;
}

/** Number of connections for round robin over at most two endpoints: each is seen once, and one of them twice. */
function probesFor(expected: string): number {
  if (expected.includes("←")) return 3;
  return expected === "silence" ? 2 : 1;
}

/** Opens one connection or flow of datagrams from a place. */
export function connectFrom(stations: Stations, place: string, probe: Probe): Promise<Outcome> {
  const station = stations.get(place);
  if (station === undefined) throw new Error(`No station at ${place}`);
  return station.probe(probe);
}

function outcomeText(outcome: Outcome, { address, payloadBytes }: Probe): string {
  switch (outcome.kind) {
    case "answer": {
      const { backend, source, receivedBytes } = outcome.answer;
      if (receivedBytes !== payloadBytes) return `${backend} got ${receivedBytes} bytes`;
      return `${backend}←${ownerOf(source, address)}`;
    }
    case "failure":
      return outcome.code;
    case "refused":
    case "silence":
      return outcome.kind;
  }
}

/** `refused` if `ping` prints that the destination is unreachable. */
async function ping(from: string, address: string): Promise<string> {
  const argv = ["netns", "exec", from, "ping", "-n", "-c", "1", "-W", "2", address];
  const { stdout } = await promisify(execFile)("ip", argv).catch((error) => error);
  if (/ 1 received/.test(stdout)) return "answered";
  return /unreachable/i.test(stdout) ? "refused" : "silence";
}
