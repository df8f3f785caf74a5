/**
 * Random pairs: the leftovers of any mode, any backend or kube-proxy, followed by any mode or a clean-up. The program
 * may be killed at a random change and restarted. The final kernel state must equal that of a fresh start. `make
 * faults` runs more pairs.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ipFamilies } from "../../../src/base/ip.ts";
import { silentLogger } from "../../../src/base/log.ts";
import type { Config } from "../../../src/config/config.ts";
import { cleanUpAndPrint } from "../../../src/daemon/clean-up.ts";
import { leftoverRemoval, noEarlierRuns } from "../../../src/daemon/leftovers/remove-leftovers.ts";
import type { Mode } from "../../../src/daemon/leftovers/rules-of-modes.ts";
import type { ModeRecord } from "../../../src/daemon/process/mode-record.ts";
import { ProxyHealth } from "../../../src/daemon/report/proxy-health.ts";
import { startDaemon } from "../../../src/daemon/start.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { FakeIptables } from "../../support/fake-kernel/fake-iptables.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { Operations } from "../../support/fake-kernel/operations.ts";
import { addressesText, ipSetText, ipvsText } from "../../support/fake-kernel/state-text.ts";
import { iptablesModeRules, putRules } from "../../support/iptables-mode.ts";
import { MemorySource, type NamedObject } from "../../support/memory-source.ts";
import { endpoint, endpointSlice, service } from "../../support/objects.ts";
import { Portals } from "../../support/portals.ts";
import { groupsOf, seededRandom, seeds } from "../../support/seeds.ts";
import { silentMetrics } from "../../support/silent-metrics.ts";
import { load } from "../config/loading.ts";

const pairs = { short: 40, long: 200 };
const pairsPerTest = 10;

type Left = Mode | "kube-proxy" | "nothing";
type Goal = Mode | "clean-up";

const tables = ["filter", "nat", "mangle"] as const;
const lefts: readonly Left[] = ["ipvs", "iptables", "userspace", "kube-proxy", "nothing"];
const goals: readonly Goal[] = ["ipvs", "iptables", "userspace", "clean-up"];
/** Longer than all pauses between retries, drain checks and leftover removals. */
const restMs = 700_000;

/** Values of `kubeIpvs.portRangeMarks`. The first one is unset. */
const masks = [undefined, 0x3fff0000, 0x0fff8000] as const;
type Mask = (typeof masks)[number];

/** One node over several runs of the program. */
class PairNode {
  readonly #kernel = Object.assign(new FakeKernel(), {
    unused: new FakeIptables(new Operations()),
    unusedBackends: async () => [this.#kernel.unused],
  });
  readonly #backends: readonly [FakeIptables, FakeIptables];
  readonly #clock = new FakeClock();
  readonly #ran = new Set<Mode>();
  #marks: readonly number[] = [];
  #mask: Mask;

  constructor() {
    const { operations, iptables, ipSets } = this.#kernel;
    const other = new FakeIptables(operations);
    other.useSets((name) => ipSets.has(name));
    this.#backends = [iptables, other];
    this.use(0, undefined);
  }

  /** From now on, the node's programs use this backend, and the program has these marks. */
  use(index: number, mask: Mask): void {
    this.#mask = mask;
    const [first, second] = this.#backends;
    const [iptables, unused] = index === 0 ? [first, second] : [second, first];
    Object.assign(this.#kernel, { iptables, unused });
  }

  leaveKubeProxyRules(): void {
    putRules(this.#kernel.iptables, iptablesModeRules);
    this.#ran.add("iptables");
  }

  crashAt(change: number): void {
    this.#kernel.operations.crashAt(change);
  }

  get hasCrashed(): boolean {
    return this.#kernel.operations.hasCrashed;
  }

  async run(goal: Goal, services: readonly string[]): Promise<void> {
    for (const iptables of this.#backends) iptables.findLeftovers();
    const mask = this.#mask === undefined ? "" : `0x${this.#mask.toString(16)}`;
    const { config } = load({
      "proxy-mode": goal === "clean-up" ? "ipvs" : goal,
      "kube-ipvs-port-range-marks": mask,
    });
    const earlierMarks = this.#marks;
    if (this.#mask !== undefined) this.#marks = [...new Set([...earlierMarks, this.#mask])];
    this.#kernel.ipvs.portRangeMarks = this.#marks;
    try {
      if (goal === "clean-up") await this.#cleanUp(config);
      else if (goal === "userspace") await this.#runUserspace(config);
      else await this.#runDaemon(config, services, earlierMarks);
    } finally {
      if (this.hasCrashed) this.#kernel.operations.revive();
    }
  }

  async #cleanUp(config: Config): Promise<void> {
    if (await cleanUpAndPrint(this.#kernel, config, () => {}, { clock: this.#clock }))
      this.#noteTidied();
  }

  /** Writes the rules of userspace mode without a listener, and removes leftovers. */
  async #runUserspace(config: Config): Promise<void> {
    const runs = { ...noEarlierRuns, earlier: new Set(this.#ran), earlierMarks: this.#marks };
    const context = { clock: this.#clock, log: silentLogger, runs };
    this.#ran.add("userspace");
    await new Portals(this.#kernel, ipFamilies, { clock: this.#clock }).sync([]);
    const remove = leftoverRemoval(this.#kernel, config, context);
    const stop = new AbortController();
    const removed = remove(stop.signal);
    await this.#clock.advance(restMs);
    if (await removed) this.#noteTidied("userspace");
  }

  async #runDaemon(
    config: Config,
    services: readonly string[],
    earlierMarks: readonly number[],
  ): Promise<void> {
    const source = new MemorySource();
    for (const object of services.flatMap(objectsOf)) source.apply(object);
    const modeRecord = {
      ownership: noEarlierRuns.ownership,
      earlier: new Set(this.#ran),
      earlierMarks,
      begin: async (mode: Mode) => void this.#ran.add(mode),
      tidied: (mode: Mode) => this.#noteTidied(mode),
    } satisfies ModeRecord;
    const daemon = await startDaemon({
      ...{ config, source, modeRecord, kernel: this.#kernel, clock: this.#clock },
      ...{ metrics: silentMetrics, log: silentLogger },
      health: new ProxyHealth(this.#clock, 60_000),
    });
    await this.#clock.advance(restMs);
    await daemon.stop();
  }

  #noteTidied(mode?: Mode): void {
    if (this.hasCrashed) return;
    this.#ran.clear();
    if (mode !== undefined) this.#ran.add(mode);
    this.#marks = mode === undefined || this.#mask === undefined ? [] : [this.#mask];
  }

  /** The state without kubelet's chains, which kube-proxy may have created. */
  state(): string {
    const rules = [this.#kernel.iptables, this.#kernel.unused].map((iptables) =>
      ipFamilies.flatMap((family) =>
        tables.flatMap((table) =>
          iptables
            .table(family, table)
            .observe()
            .filter(({ name }) => !ofKubelet.has(name))
            .map(({ name, rules }) => {
              const texts = rules.map(({ text }) => text).filter((text) => !toKubelet.test(text));
              return [`${family} ${table} ${name}`, ...texts].join("\n  ");
            }),
        ),
      ),
    );
    const kernel = this.#kernel;
    return [ipvsText(kernel), ipSetText(kernel), addressesText(kernel), ...rules.flat()].join("\n");
  }
}

const ofKubelet: ReadonlySet<string> = new Set([
  "KUBE-FIREWALL",
  "KUBE-MARK-DROP",
  "KUBE-IPTABLES-HINT",
  "KUBE-KUBELET-CANARY",
]);
const toKubelet = /-j KUBE-FIREWALL$/;

function objectsOf(name: string): readonly NamedObject[] {
  const number = name.codePointAt(0) ?? 0;
  const clusterIps = [`10.96.0.${number}`, `fd00:96::${number}`];
  const spec = number % 2 === 0 ? { loadBalancerSourceRanges: ["198.51.100.0/24"] } : {};
  const status = {
    loadBalancer: { ingress: [{ ip: `203.0.113.${number}` }, { ip: `2001:db8:113::${number}` }] },
  };
  // "a" and "b" have port ranges, with and without source ranges, in both families.
  const metadata = { annotations: name === "c" ? {} : { "kube-ipvs.io/port-range": "7000-7100" } };
  const wanted = service({ name, clusterIps, type: "LoadBalancer", spec, status, metadata });
  const slices = [`10.244.1.${number}`, `fd00:244:1::${number}`].map((address) =>
    endpointSlice({
      name: `${name}-${address.replaceAll(":", "-")}`,
      service: name,
      endpoints: [endpoint(address)],
    }),
  );
  return [wanted, ...slices] as unknown as readonly NamedObject[];
}

async function tryPair(seed: number): Promise<void> {
  const random = seededRandom(seed);
  const oneOf = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  const someServices = (): readonly string[] => ["a", "b", "c"].filter(() => random() < 0.6);
  const [left, goal] = [oneOf(lefts), oneOf(goals)];
  const [backendBefore, backend] = [oneOf([0, 1]), oneOf([0, 1])];
  const [before, after] = [someServices(), someServices()];
  const kills = oneOf([0, 1, 2]);
  const [maskBefore, mask] = [oneOf(masks), oneOf(masks)];
  const name = `${left} in ${backendBefore} (${before}, ${maskBefore}) → ${goal} in ${backend} (${after}, ${mask})`;

  const node = new PairNode();
  node.use(backendBefore, maskBefore);
  if (left === "kube-proxy") node.leaveKubeProxyRules();
  else if (left !== "nothing") await node.run(left, before);
  node.use(backend, mask);
  for (let kill = 0; kill < kills; kill += 1) {
    node.crashAt(1 + Math.floor(random() * 60));
    await node.run(goal, after).catch(() => undefined);
  }
  await node.run(goal, after);

  const fresh = new PairNode();
  fresh.use(backend, mask);
  await fresh.run(goal, after);
  assert.equal(node.state(), fresh.state(), `seed ${seed}: ${name}, ${kills} kills`);
}

describe("from any initial state, a start or a clean-up leads to the same state as on a fresh node", () => {
  for (const some of groupsOf(pairsPerTest, seeds(pairs))) {
    it(`with seeds ${some[0]} to ${some.at(-1)}`, async () => {
      for (const seed of some) await tryPair(seed);
    });
  }
});
