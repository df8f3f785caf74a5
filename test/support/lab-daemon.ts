/** Runs the daemon in this process, in the lab's current network namespace, with objects in memory. */
import assert from "node:assert/strict";
import { silentLogger } from "../../src/base/log.ts";
import type { Config } from "../../src/config/config.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { cleanUpAndPrint } from "../../src/daemon/clean-up.ts";
import { type BackendChoice, chooseBackend } from "../../src/kernel/iptables/backend.ts";
import { openKernel } from "../../src/kernel/open-kernel.ts";
import { runProgram } from "../../src/kernel/run-program.ts";
import { type PrometheusMetrics, prometheusMetrics } from "../../src/metrics/prometheus-metrics.ts";
import type { Holders } from "../../src/plan/claims/claim.ts";
import { type InProcessDaemon, startInProcess } from "./in-process.ts";
import { MemorySource, type NamedObject } from "./memory-source.ts";
import type { ApiObject } from "./objects.ts";
import { pauseAfterCheck } from "./pause-after-check.ts";
import { type RecordedLine, RecordingLogger } from "./recording-logger.ts";
import { hasIptables, labRules } from "./rules-writer.ts";

const iptablesBackend: BackendChoice | undefined = hasIptables
  ? await chooseBackend(runProgram)
  : undefined;

/** Flags by name, without dashes. */
export type Flags = Readonly<Record<string, string>>;

/** The sync period is so long that it does not affect tests. */
const baseFlags: Flags = {
  "hostname-override": "node-1",
  "cluster-cidr": "10.244.0.0/16,fd00:244::/32",
  "ipvs-min-sync-period": "0s",
  "ipvs-sync-period": "1h",
};

/** A running daemon, with its output for tests. */
export interface LabDaemon {
  readonly lines: readonly RecordedLine[];
  /** Log lines about errors, with the event and the error's text. */
  readonly errors: readonly string[];
  apply(...objects: readonly (ApiObject | NamedObject)[]): void;
  delete(...objects: readonly (ApiObject | NamedObject)[]): void;
  settled(): Promise<void>;
  /** Owners of contested addresses. */
  holders(): Holders;
  /** Lines of the metrics that start with this name. */
  metrics(name: string): Promise<readonly string[]>;
  stop(): Promise<void>;
}

/**
 * Starts the daemon and waits until `objects` are in the kernel. The iptables backend is detected when this file is
 * loaded. `held`: the owners of contested addresses in an earlier run's record.
 */
export async function startLabDaemon(
  objects: readonly (ApiObject | NamedObject)[],
  flags: Flags = {},
  backend: BackendChoice | undefined = iptablesBackend,
  held: Holders = new Map(),
): Promise<LabDaemon> {
  const config = configOf(flags);
  const log = new RecordingLogger();
  const metrics = prometheusMetrics({ version: "0.0.0" });
  const source = new MemorySource();
  source.apply(...named(objects));
  const holderRecord = { held, keepHolders() {} };
  const own = { config, source, metrics, log, holderRecord };
  const daemon = await startInProcess({ ...own, iptablesBackend: backend });
  await daemon.settled();
  return new RunningDaemon({ source, metrics, log, daemon });
}

class RunningDaemon implements LabDaemon {
  readonly #source: MemorySource;
  readonly #metrics: PrometheusMetrics;
  readonly #log: RecordingLogger;
  readonly #daemon: InProcessDaemon;

  constructor(parts: {
    readonly source: MemorySource;
    readonly metrics: PrometheusMetrics;
    readonly log: RecordingLogger;
    readonly daemon: InProcessDaemon;
  }) {
    this.#source = parts.source;
    this.#metrics = parts.metrics;
    this.#log = parts.log;
    this.#daemon = parts.daemon;
  }

  get lines(): readonly RecordedLine[] {
    return this.#log.lines;
  }

  get errors(): readonly string[] {
    return this.lines
      .filter(({ level }) => level === "error")
      .map(({ event, keys }) => `${event}: ${keys["err"]}`);
  }

  apply(...objects: readonly (ApiObject | NamedObject)[]): void {
    this.#source.apply(...named(objects));
  }

  delete(...objects: readonly (ApiObject | NamedObject)[]): void {
    this.#source.delete(...named(objects));
  }

  settled(): Promise<void> {
    return this.#daemon.settled();
  }

  holders(): Holders {
    return this.#daemon.view.plan.desired.claims.contestedHolders();
  }

  async metrics(name: string): Promise<readonly string[]> {
    const text = await this.#metrics.exposition();
    return text.split("\n").filter((line) => line.startsWith(name));
  }

  stop(): Promise<void> {
    return this.#daemon.stop();
  }
}

/** Runs `body` while a daemon is running, then stops the daemon. */
export async function withLabDaemon<T>(
  objects: readonly ApiObject[],
  flags: Flags,
  body: (daemon: LabDaemon) => Promise<T>,
): Promise<T> {
  const daemon = await startLabDaemon(objects, flags);
  try {
    return await body(daemon);
  } finally {
    await daemon.stop();
  }
}

/** Runs `--cleanup` and returns the lines that it prints. */
export async function cleanUpLab(flags: Flags = {}): Promise<readonly string[]> {
  const backend = { iptablesBackend, rules: labRules };
  const config = configOf(flags);
  const portRangeMarks = config.portRangeMarks === undefined ? [] : [config.portRangeMarks];
  const kernel = await openKernel({ log: silentLogger, portRangeMarks, ...backend });
  const printed: string[] = [];
  try {
    await cleanUpAndPrint(kernel, config, (line) => printed.push(line));
    return printed;
  } finally {
    kernel.close();
  }
}

/** Every object from the builders has a name. */
function named(objects: readonly (ApiObject | NamedObject)[]): readonly NamedObject[] {
  return objects as readonly unknown[] as readonly NamedObject[];
}

function configOf(flags: Flags): Config {
  const given = Object.entries({ ...baseFlags, ...flags }).map(
    ([name, value]) => [name, [value]] as const,
  );
  return loadConfig(new Map(given), { readFile: () => "", hostname: () => "node-1" }).config;
}

/**
 * Waits until `look` returns the expected value, and returns the number of milliseconds. Otherwise fails with the
 * difference.
 */
export async function eventually<T>(
  look: () => T | Promise<T>,
  wanted: T,
  timeoutMs: number,
): Promise<number> {
  const beganMs = performance.now();
  for (;;) {
    const checkedMs = performance.now();
    const found = await look();
    const elapsedMs = performance.now() - beganMs;
    if (elapsedMs > timeoutMs) assert.deepEqual(found, wanted);
    try {
      assert.deepEqual(found, wanted);
      return elapsedMs;
    } catch (error) {
      if (!(error instanceof assert.AssertionError)) throw error;
    }
    // The check blocks this thread, which is also the daemon's.
    await pauseAfterCheck(checkedMs, 20);
  }
}
