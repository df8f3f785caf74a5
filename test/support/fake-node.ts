/** Runs the whole daemon on a fake kernel, with objects in memory and a clock that the test controls. */
import assert from "node:assert/strict";
import { silentEvents } from "../../src/api/event.ts";
import type { ObjectSource } from "../../src/api/source.ts";
import { ipFamilies } from "../../src/base/ip.ts";
import { silentLogger } from "../../src/base/log.ts";
import type { Config } from "../../src/config/config.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import type { HttpListenerOptions } from "../../src/daemon/http/http-listener.ts";
import type { Listener } from "../../src/daemon/http/service-health.ts";
import type { DaemonView, ModeView } from "../../src/daemon/operator/daemon-view.ts";
import { modeRecordIn } from "../../src/daemon/process/mode-record.ts";
import { numberRecordIn } from "../../src/daemon/process/number-record.ts";
import { holderRecordIn, ownershipRecordIn } from "../../src/daemon/process/ownership-record.ts";
import type { KeptState } from "../../src/daemon/process/state-file.ts";
import { ProxyHealth } from "../../src/daemon/report/proxy-health.ts";
import { type Daemon, startDaemon } from "../../src/daemon/start.ts";
import { beginUserspace } from "../../src/daemon/userspace/begin-userspace.ts";
import type { AskWeight } from "../../src/daemon/weights/ask-weight.ts";
import type { Metrics } from "../../src/metrics/prometheus-metrics.ts";
import type { Holders } from "../../src/plan/claims/claim.ts";
import type { KernelState } from "../golden/kernel-state.ts";
import { FakeClock } from "./fake-clock.ts";
import { FakeKernel } from "./fake-kernel/fake-kernel.ts";
import { addressesText, ipSetText, iptablesText, ipvsText } from "./fake-kernel/state-text.ts";
import { FakeListeners } from "./fake-listeners.ts";
import { httpRequest } from "./http-request.ts";
import { MemorySource } from "./memory-source.ts";
import { gaugeOf, silentMetrics } from "./silent-metrics.ts";

/** Flags by name, without dashes. */
type Flags = Readonly<Record<string, string>>;

const baseFlags: Flags = {
  // Objects are in memory, so the daemon does not wait for a Node object.
  manifests: "/memory",
  "hostname-override": "node-1",
  "cluster-cidr": "10.244.0.0/16,fd00:244::/32",
  "ipvs-min-sync-period": "0s",
};

/** Longer than the interval between drain checks. */
const allDrainsMs = 15_000;

interface NodeOptions {
  /** The owners of contested addresses in an earlier run's record. */
  readonly held?: Holders;
  /** If undefined, endpoints must not be asked for their weights. */
  readonly askWeight?: AskWeight;
}

export class FakeNode {
  readonly source: MemorySource = new MemorySource();
  readonly kernel: FakeKernel = new FakeKernel();
  #config: Config;
  /** The flags in `#config`, without those of all nodes. */
  #flags: Flags;
  readonly #clock = new FakeClock();
  readonly #listeners = new Map<string, HttpListenerOptions>();
  readonly #figures = new Map<string, number>();
  /** Not in {@link #figures}, because it does not depend on the state alone. */
  lastCleanVerificationSeconds = 0;
  /** The sections that a real daemon stores in a file. They are preserved across restarts. */
  #state: Readonly<Record<string, unknown>> = {};
  readonly #askWeight: AskWeight | undefined;
  #daemon: Pick<Daemon, "view" | "settled" | "reconfigure" | "stop"> | undefined;

  constructor(flags: Flags, { held = new Map(), askWeight }: NodeOptions = {}) {
    this.#config = configOf({ ...baseFlags, ...flags });
    this.#flags = flags;
    holderRecordIn(this.#keptState()).keepHolders(held);
    this.#askWeight = askWeight;
  }

  async start(source: ObjectSource = this.source): Promise<void> {
    this.#figures.clear();
    this.kernel.link.virtualAddresses = this.#config.virtualAddresses;
    const { "kube-ipvs-rules": rules } = this.#flags;
    if (rules === "iptables" || rules === "nftables") this.kernel.useRules(rules);
    this.kernel.findLeftovers();
    this.kernel.ipvs.portRangeMarks = [this.#config.portRangeMarks ?? 0];
    const state = this.#keptState();
    const shared = {
      ...{ source, clock: this.#clock, log: silentLogger, metrics: this.#metrics() },
      health: new ProxyHealth(this.#clock, 60_000),
      holderRecord: holderRecordIn(state),
      modeRecord: modeRecordIn(state, this.#config),
    };
    const { kernel } = this;
    this.#daemon =
      this.#config.mode === "userspace"
        ? await beginUserspace(this.#config, {
            ...{ ...shared, events: silentEvents, listeners: new FakeListeners() },
            openKernel: async () => ({
              ...{ ...kernel, families: ipFamilies, whole: kernel, close() {} },
            }),
          })
        : await startDaemon({
            ...{ ...shared, config: this.#config, kernel },
            ownershipRecord: ownershipRecordIn(state),
            weightRecord: numberRecordIn(state, "answeredWeights"),
            ...(this.#askWeight && { askWeight: this.#askWeight }),
            makeListener: (options) => this.#listener(options),
          });
  }

  get config(): Config {
    return this.#config;
  }

  /** The current flags. */
  get flags(): Flags {
    return this.#flags;
  }

  /** The running daemon's state, as operator commands read it. */
  get view(): DaemonView {
    assert.ok(this.#daemon !== undefined, "a daemon runs");
    const { view } = this.#daemon;
    assert.ok(view.mode === "ipvs", "the mode is ipvs");
    return view;
  }

  /** The view that exists in every mode. */
  get modeView(): ModeView {
    return this.#daemon?.view ?? assert.fail("no daemon is running");
  }

  /** Owners of contested addresses, as recorded after the last sync. */
  holders(): Holders {
    return holderRecordIn(this.#keptState()).held;
  }

  /** Deletes the record of owners, as if its folder could not be written. */
  loseHolders(): void {
    this.#state = { ...this.#state, holders: undefined };
  }

  /** Stops the daemon, which must not leave a timer or a listener behind. */
  async stop(): Promise<void> {
    await this.#daemon?.stop();
    this.#daemon = undefined;
    assert.equal(this.#clock.pendingTimers, 0, "nothing waits after the stop");
    assert.equal(this.#listeners.size, 0, "nothing listens after the stop");
  }

  get isRunning(): boolean {
    return this.#daemon !== undefined;
  }

  /** Applies a new configuration, which also applies after restarts. `flags` contains all its flags. */
  async reconfigure(flags: Flags): Promise<void> {
    this.#config = configOf({ ...baseFlags, ...flags });
    this.#flags = flags;
    await this.#daemon?.reconfigure(this.#config);
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  /** Kills the daemon before its n-th subsequent kernel change, or after a second, and restarts it. */
  async kill(nth: number): Promise<void> {
    await this.crash(nth);
    await this.start();
  }

  /** Kills the daemon before its n-th subsequent kernel change, or after a second. */
  async crash(nth: number): Promise<void> {
    this.kernel.operations.crashAt(nth);
    await this.#clock.advance(1_000);
    await this.stop();
    this.kernel.operations.revive();
  }

  /** Advances the clock. */
  async wait(milliseconds: number): Promise<void> {
    await this.#clock.advance(milliseconds);
  }

  /** Advances the clock until all reported objects are in the kernel. */
  async settle(): Promise<void> {
    let isSettled = false;
    const settled = this.#daemon?.settled().then(() => {
      isSettled = true;
    });
    for (let second = 0; second < 300 && !isSettled; second += 1) await this.#clock.advance(1_000);
    assert.ok(isSettled, "settles within 5 minutes");
    await settled;
  }

  /** Gives every real server this many connections. */
  connect(active: number): void {
    for (const { virtualServer, realServers } of this.kernel.ipvs.peek()) {
      for (const real of realServers) {
        this.kernel.ipvs.setConnections(virtualServer, real, { active });
      }
    }
  }

  /** Settles, then ends all connections and all drains. */
  async comeToRest(): Promise<void> {
    await this.settle();
    this.connect(0);
    await this.#clock.advance(allDrainsMs);
    await this.settle();
  }

  /** The kernel state that other programs can see, and the answers to load balancers' health checks. */
  async state(): Promise<KernelState> {
    const { kernel } = this;
    return {
      ipvs: ipvsText(kernel),
      ipset:
        ipSetText(kernel) +
        kernel
          .unusedNames()
          .map((name) => `unused ${name}\n`)
          .join(""),
      iptables: iptablesText(kernel, "IPv4"),
      ip6tables: iptablesText(kernel, "IPv6"),
      addresses: addressesText(kernel),
      health: await this.#healthText(),
    };
  }

  /** Metrics that describe a state, by name. */
  figures(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#figures);
  }

  async #healthText(): Promise<string> {
    const request = httpRequest("/");
    const answers = [...this.#listeners].map(async ([place, { respond }]) => {
      const { status, body } = await respond(request);
      return `${place} ${status} ${body}`;
    });
    return (await Promise.all(answers)).toSorted().join("");
  }

  #keptState(): KeptState {
    return {
      content: this.#state,
      keep: (sections) => {
        if (this.kernel.operations.hasCrashed) return;
        const values = Object.entries(sections).map(([name, value]) => [name, value()]);
        this.#state = { ...this.#state, ...Object.fromEntries(values) };
      },
      async idle() {},
    };
  }

  #listener(options: HttpListenerOptions): Listener {
    const place = `${options.address.address} ${options.address.port}`;
    return {
      start: async () => {
        assert.ok(!this.#listeners.has(place), `${place} is free`);
        this.#listeners.set(place, options);
      },
      stop: async () => {
        this.#listeners.delete(place);
      },
    };
  }

  #metrics(): Metrics {
    const note = (name: string, value: number): void => {
      this.#figures.set(name, value);
    };
    return {
      ...silentMetrics,
      noLocalEndpoints: gaugeOf<"noLocalEndpoints">((labels, count) =>
        note(`no local ${labels.traffic_policy} ${labels.ip_family}`, count),
      ),
      conflicts: gaugeOf<"conflicts">(({ reason }, count) => note(`conflicts ${reason}`, count)),
      foreignVirtualServers: gaugeOf<"foreignVirtualServers">((count) => note("foreign", count)),
      drainingRealServers: gaugeOf<"drainingRealServers">((count) => note("draining", count)),
      lastCleanVerification: gaugeOf<"lastCleanVerification">((time) => {
        this.lastCleanVerificationSeconds = time;
      }),
    };
  }
}

function configOf(flags: Flags): Config {
  const settings = Object.entries(flags).map(([name, value]) => [name, [value]] as const);
  return loadConfig(new Map(settings), { readFile: () => "", hostname: () => "other" }).config;
}
