/**
 * The daemon on a fake kernel, with its log, metrics and records, objects in memory, and a clock that the test
 * controls.
 */
import type { ClusterEvent } from "../../src/api/event.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { ProxyHealth } from "../../src/daemon/report/proxy-health.ts";
import { type Daemon, startDaemon } from "../../src/daemon/start.ts";
import type { AskWeight } from "../../src/daemon/weights/ask-weight.ts";
import type { RampStartTimes } from "../../src/model/slow-starts.ts";
import { FakeClock } from "./fake-clock.ts";
import { FakeKernel } from "./fake-kernel/fake-kernel.ts";
import { ipvsText } from "./fake-kernel/state-text.ts";
import { MemorySource, type NamedObject } from "./memory-source.ts";
import { type RecordedLine, RecordingLogger } from "./recording-logger.ts";
import { gaugeOf, silentMetrics } from "./silent-metrics.ts";

const baseFlags = {
  // Objects are in memory, so the daemon does not wait for a Node object.
  manifests: "/memory",
  "hostname-override": "node-1",
  "cluster-cidr": "10.244.0.0/16",
  "ipvs-min-sync-period": "0s",
  "ipvs-sync-period": "1h",
};

export class TunedNode {
  readonly kernel: FakeKernel = new FakeKernel();
  readonly source: MemorySource = new MemorySource();
  readonly clock: FakeClock = new FakeClock();
  readonly events: ClusterEvent[] = [];
  /** How the daemon asks endpoints for their weights. */
  askWeight: AskWeight = () => Promise.resolve({ problem: "status 404" });
  /** Ignored annotations, by reason. */
  readonly ignored: Map<string, number> = new Map();
  readonly #log = new RecordingLogger();
  readonly #nodes = new Map<string, NamedObject>();
  #daemon: Daemon | undefined;

  /** Starts the daemon with these objects and waits until they are in the kernel. */
  async start(
    objects: readonly unknown[],
    flags: Readonly<Record<string, string>> = {},
    rampStartTimes?: RampStartTimes,
  ): Promise<void> {
    const { clock, kernel, source, events } = this;
    this.source.apply(...this.#withoutNodes(objects));
    const given = Object.entries({ ...baseFlags, ...flags });
    const { config } = loadConfig(new Map(given.map(([name, value]) => [name, [value]])), {
      readFile: () => "",
      hostname: () => "node-1",
    });
    this.#daemon = await startDaemon({
      config,
      kernel,
      source,
      clock,
      metrics: {
        ...silentMetrics,
        ignoredAnnotations: gaugeOf<"ignoredAnnotations">(({ reason }, count) => {
          this.ignored.set(String(reason), count);
        }),
      },
      health: new ProxyHealth(clock, 60_000),
      log: this.#log,
      events: { record: (event) => void events.push(event) },
      ...(rampStartTimes === undefined ? {} : { rampStartTimes }),
      askWeight: (request) => this.askWeight(request),
    });
    this.source.reportNodes(...this.#nodes.values());
    await this.pass(0);
  }

  /** Replaces the daemon's objects and gives it time to write the changes. Returns its writes. */
  async apply(...objects: readonly unknown[]): Promise<readonly string[]> {
    this.kernel.operations.clear();
    this.source.apply(...this.#withoutNodes(objects));
    this.source.reportNodes(...this.#nodes.values());
    await this.pass(0);
    return this.kernel.operations.texts();
  }

  /** Advances the clock. Returns the daemon's writes during that time. */
  async pass(milliseconds: number): Promise<readonly string[]> {
    this.kernel.operations.clear();
    await this.clock.advance(milliseconds);
    await this.#daemon?.settled();
    return this.kernel.operations.texts();
  }

  /** Collects Nodes, because the source reports all of them together. */
  #withoutNodes(objects: readonly unknown[]): readonly NamedObject[] {
    const named = objects as readonly NamedObject[];
    for (const node of named.filter(({ kind }) => kind === "Node")) {
      this.#nodes.set(node.metadata.name, node);
    }
    return named.filter(({ kind }) => kind !== "Node");
  }

  async stop(): Promise<void> {
    await this.#daemon?.stop();
    this.#daemon = undefined;
  }

  /** `ipvsadm -Sn`, sorted. */
  get servers(): readonly string[] {
    return ipvsText(this.kernel).split("\n").slice(0, -1);
  }

  /** Log lines about annotations. */
  get warnings(): readonly RecordedLine[] {
    return this.#log.lines.filter(({ event }) => event === "Ignoring annotation");
  }
}
