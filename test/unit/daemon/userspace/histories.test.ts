/**
 * Random histories of Services and endpoints in userspace mode, with real sockets and a fake kernel: writes fail, third
 * parties remove rules, and the process is replaced. At the end, a start must have nothing to open or write.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import fc from "fast-check";
import { planView } from "../../../../src/answer/plan.ts";
import { silentEvents } from "../../../../src/api/event.ts";
import { systemClock } from "../../../../src/base/clock.ts";
import { ipFamilies } from "../../../../src/base/ip.ts";
import { silentLogger } from "../../../../src/base/log.ts";
import { loadConfig } from "../../../../src/config/load-config.ts";
import { planOptionsOf } from "../../../../src/daemon/node/node-facts.ts";
import { readNodeNetwork } from "../../../../src/daemon/node/node-network.ts";
import { planOf } from "../../../../src/daemon/print-plan.ts";
import { ProxyHealth } from "../../../../src/daemon/report/proxy-health.ts";
import {
  beginUserspace,
  type RunningUserspace,
} from "../../../../src/daemon/userspace/begin-userspace.ts";
import { socketlessNetwork } from "../../../../src/daemon/userspace/open-userspace-kernel.ts";
import { listenerObject } from "../../../../src/daemon/userspace/print-userspace-plan.ts";
import { listListeningSockets } from "../../../../src/kernel/listening-sockets.ts";
import type { Holders } from "../../../../src/plan/claims/claim.ts";
import { portalRules } from "../../../../src/userspace/portal-rules.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { skippedWithoutIpv6 } from "../../../support/ipv6.ts";
import { MemorySource } from "../../../support/memory-source.ts";
import { planUserspace } from "../../../support/plan-userspace.ts";
import {
  type ClusterChange,
  carryOut,
  clusterChanges,
} from "../../../support/random-cluster/changes.ts";
import { seeds } from "../../../support/seeds.ts";
import { silentMetrics } from "../../../support/silent-metrics.ts";
import { wantedListeners } from "../../../support/wanted-listeners.ts";

const counts = { short: 5, long: 100 };
const changeCount = 60;

type Interlude = "none" | "settle" | "restart" | "fail" | "flush";

const interludes: fc.Arbitrary<Interlude> = fc.oneof(
  { weight: 5, arbitrary: fc.constant("none" as const) },
  { weight: 3, arbitrary: fc.constant("settle" as const) },
  { weight: 1, arbitrary: fc.constantFrom("restart" as const, "fail" as const, "flush" as const) },
);
const histories: fc.Arbitrary<readonly (readonly [ClusterChange, Interlude])[]> = fc.noBias(
  fc.array(fc.tuple(clusterChanges, interludes), {
    minLength: changeCount,
    maxLength: changeCount,
  }),
);

const flags = new Map([
  ["proxy-mode", ["userspace"]],
  ["hostname-override", ["node-1"]],
  ["ipvs-min-sync-period", ["0s"]],
  ["ipvs-sync-period", ["1s"]],
]);
const { config } = loadConfig(flags, { readFile: () => "", hostname: () => "node-1" });

class Stage {
  readonly source: MemorySource = new MemorySource();
  readonly kernel: FakeKernel = new FakeKernel();
  #held: Holders = new Map();
  #running: RunningUserspace | undefined;
  #health = new ProxyHealth(systemClock, 60_000);

  async start(): Promise<void> {
    const { source, kernel } = this;
    this.#health = new ProxyHealth(systemClock, 60_000);
    this.#running = await beginUserspace(config, {
      ...{ clock: systemClock, log: silentLogger, health: this.#health, metrics: silentMetrics },
      ...{ source, events: silentEvents },
      holderRecord: { held: this.#held, keepHolders: (held) => this.#keep(held) },
      openKernel: async () => ({
        ...{ iptables: kernel.iptables, conntrack: kernel.conntrack, whole: kernel },
        ...{ ...socketlessNetwork, families: ipFamilies, close() {} },
      }),
    });
  }

  async stop(): Promise<void> {
    const { stop } = this.#running ?? {};
    this.#running = undefined;
    await stop?.();
  }

  #keep(held: Holders): void {
    this.#held = held;
  }

  async undergo(interlude: Interlude): Promise<void> {
    switch (interlude) {
      case "none":
        return;
      case "settle":
        return void (await pause(5));
      case "restart":
        await this.stop();
        return this.start();
      case "fail":
        return void this.kernel.operations.failWhere(
          ({ facility }) => facility === "iptables",
          new Error("no"),
          1,
        );
      case "flush": {
        const { chains } = portalRules("IPv4", []);
        return this.kernel.iptables
          .apply(
            "IPv4",
            chains.slice(0, 2).map((chain) => ({ kind: "chain-write", chain })),
          )
          .catch(() => {});
      }
    }
  }

  /** The changes that a start would make now. */
  async plan(): Promise<string> {
    const { objects: tracker } = this.#running?.view ?? assert.fail();
    const families = ipFamilies;
    const network = await readNodeNetwork(socketlessNetwork, () => ({ apiServers: [] }));
    const options = planOptionsOf({ config, families, node: undefined, network });
    const { kernel } = this;
    const held = { held: this.#held };
    const wanted = await wantedListeners(tracker, options, held, kernel.iptables);
    const node = { kernel, families, sockets: listListeningSockets() };
    const plan = await planUserspace(wanted, node, config);
    const rules = await planOf(plan.rules, config, undefined);
    const answer = { ...rules, listeners: plan.toOpen.map(listenerObject) };
    return planView.blocks(answer, false).join("\n");
  }
}

describe("random histories in userspace mode", { skip: skippedWithoutIpv6 }, () => {
  for (const seed of seeds(counts)) {
    it(`seed ${seed} ends in a state where a start writes nothing`, async (test) => {
      const [history = []] = fc.sample(histories, { seed, numRuns: 1 });
      const stage = new Stage();
      test.after(() => stage.stop());
      await stage.start();
      for (const [change, interlude] of history) {
        carryOut(change, stage.source);
        await stage.undergo(interlude);
      }
      let plan = "";
      for (let tries = 0; tries < 600 && plan !== "No changes."; tries += 1) {
        await pause(50);
        // This read may be the one that must fail.
        plan = await stage.plan().catch(String);
      }
      assert.equal(plan, "No changes.");
    });
  }
});
