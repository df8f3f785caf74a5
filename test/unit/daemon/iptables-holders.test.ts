/**
 * Uses the whole daemon in iptables mode to test which Service owns an address that two Services claim, even after
 * restarts.
 */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import type { ClusterEvent } from "../../../src/api/event.ts";
import { errno } from "../../../src/base/errno.ts";
import { inSlices } from "../../../src/base/time-slice.ts";
import { loadConfig } from "../../../src/config/load-config.ts";
import { countsOf } from "../../../src/daemon/operator/object-counts.ts";
import { answerTo } from "../../../src/daemon/operator/routes.ts";
import { ProxyHealth } from "../../../src/daemon/report/proxy-health.ts";
import { type Daemon, startDaemon } from "../../../src/daemon/start.ts";
import type { Holders } from "../../../src/plan/claims/claim.ts";
import { servicePortChains } from "../../../src/plan/iptables/chain-names.ts";
import { toServerKey } from "../../../src/state/virtual-server.ts";
import { configurationText } from "../../golden/configuration.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { iptablesText } from "../../support/fake-kernel/state-text.ts";
import { MemorySource, type NamedObject } from "../../support/memory-source.ts";
import { type ApiObject, endpointSlice, service } from "../../support/objects.ts";
import { RecordingLogger } from "../../support/recording-logger.ts";
import { silentMetrics } from "../../support/silent-metrics.ts";

const address = "198.51.100.7";
const key = toServerKey(`TCP ${address}:80`);

function claiming(name: string, year: number, isClaiming = true): NamedObject {
  return named(
    service({
      name,
      clusterIps: [`10.96.1.${year - 2000}`],
      metadata: { creationTimestamp: `${year}-01-01T00:00:00Z` },
      spec: isClaiming ? { externalIPs: [address] } : {},
    }),
  );
}

function named(object: ApiObject): NamedObject {
  return object as unknown as NamedObject;
}

describe("iptables mode: an address that a younger Service owns", () => {
  let kernel: FakeKernel;
  let source: MemorySource;
  let clock: FakeClock;
  let daemon: Daemon;
  let log: RecordingLogger;
  let events: ClusterEvent[];
  let held: Holders;
  let reads: number;

  async function start(isSettling = true): Promise<void> {
    const { config } = loadConfig(new Map([["config", ["file.yaml"]]]), {
      hostname: () => "node-1",
      readFile: () => configurationText({ mode: "iptables" }),
    });
    daemon = await startDaemon({
      ...{ config, kernel, source, clock, log },
      metrics: silentMetrics,
      health: new ProxyHealth(clock, 60_000),
      events: { record: (event) => void events.push(event) },
      holderRecord: {
        held,
        keepHolders: (...all) => {
          held = new Map(all.flatMap((holders) => [...holders]));
        },
      },
    });
    if (isSettling) await settle();
    else await clock.advance(2_000);
  }

  async function restart(): Promise<void> {
    await daemon.stop();
    reads = 0;
    await start();
  }

  async function settle(): Promise<void> {
    await clock.advance(2_000);
    await daemon.settled();
  }

  /** Returns the Service whose chain receives packets to the address. */
  function served(): string {
    const leading = iptablesText(kernel, "IPv4")
      .split("\n")
      .filter((line) => line.startsWith(`-A KUBE-SERVICES -d ${address}/32 `));
    const targets = leading.map((line) => / -j (\S+)$/.exec(line)?.[1]);
    const names = ["old", "young"].filter((name) => {
      const owner = { service: `default/${name}`, portName: "http", protocol: "TCP" } as const;
      return targets.includes(servicePortChains(owner).external);
    });
    return names.join();
  }

  beforeEach(async () => {
    kernel = new FakeKernel();
    source = new MemorySource();
    clock = new FakeClock();
    log = new RecordingLogger();
    events = [];
    held = new Map();
    reads = 0;
    kernel.operations.failWhere(({ facility, action }) => {
      if (facility === "iptables" && action === "observe") reads += 1;
      return false;
    }, 1);
    source.apply(
      claiming("young", 2026),
      claiming("old", 2020, false),
      named(endpointSlice({ name: "young-a", service: "young", endpoints: ["10.244.2.2"] })),
      named(endpointSlice({ name: "old-a", service: "old", endpoints: ["10.244.2.1"] })),
    );
    await start();
    source.apply(claiming("old", 2020));
    await settle();
  });

  afterEach(() => daemon.stop());

  it("stays with its owner when an older Service claims it, and log, Event, status and services report this", async () => {
    assert.equal(served(), "young");
    const note = `${key} is served for Service default/young, which owned it before`;
    const remedy = "give Service default/old a different address or port";
    assert.deepEqual(
      log.lines.filter(({ event }) => event.includes("claimed")).map(({ keys }) => keys),
      [
        {
          ...{ virtualServer: key, winner: "default/young:http", loser: "default/old:http" },
          ...{ claim: "held-before", reason: "claimed-by-another-service" },
        },
      ],
    );
    assert.deepEqual(
      events.filter(({ type }) => type === "Warning").map((event) => event.note),
      [`node node-1: ${note}; ${remedy}`],
    );
    assert.deepEqual(
      daemon.view.history.conflicts.map((conflict) => [conflict.note, conflict.remedy]),
      [[note, remedy]],
    );
    assert.equal((await inSlices(clock, countsOf(daemon.view))).conflicts, 1);
    const parts = {
      clock,
      configuration: () => ({}),
      status: () => assert.fail(),
      view: () => daemon.view,
    };
    const answer = await answerTo("/v1/services?namespace=default", parts);
    assert.ok(answer.kind === "list");
    const rows: unknown[] = [];
    for await (const row of answer.rows) {
      const { name, frontend, reason, claimedBy } = row as Record<string, unknown>;
      if (frontend === "external-ip") rows.push([name, reason, claimedBy]);
    }
    assert.deepEqual(rows, [
      [
        "old",
        "claimed-by-another-service",
        { namespace: "default", name: "young", claim: "held-before" },
      ],
      ["young", undefined, undefined],
    ]);
  });

  it("stays with its owner after restarts, because of the record or the existing rules", async () => {
    assert.equal(held.get(key)?.service, "default/young");
    await restart();
    assert.equal(served(), "young");
    const usual = reads;
    held = new Map();
    await restart();
    assert.equal(served(), "young");
    assert.ok(reads > usual, "the rules are read for it if there is no record");
    assert.equal(held.get(key)?.service, "default/young");
  });

  it("is found in one family while the rules of the other family cannot be read", async () => {
    const [address6, key6] = ["2001:db8::7", toServerKey("TCP [2001:db8::7]:80")];
    for (const [name, year] of [["young6", 2026] as const, ["old6", 2020] as const]) {
      const metadata = { creationTimestamp: `${year}-01-01T00:00:00Z` };
      const spec = { externalIPs: [address6] };
      const clusterIps = [`fd00:96::${year}`];
      source.apply(
        named(service({ name, clusterIps, metadata, spec })),
        named(endpointSlice({ service: name, endpoints: [`fd00:244::${year}`] })),
      );
      await settle();
    }
    assert.equal(held.get(key6)?.service, "default/young6");
    await daemon.stop();
    held = new Map();
    const repair = kernel.operations.failWhere(
      ({ facility, action, subject }) =>
        facility === "iptables" && action === "observe" && subject === "IPv6",
      errno.EBUSY,
    );
    const rules6 = iptablesText(kernel, "IPv6");
    source.apply(claiming("new", 2025, false), named(endpointSlice({ service: "new" })));
    await start(false);
    assert.equal(served(), "young");
    assert.match(iptablesText(kernel, "IPv4"), /default\/new:http/);
    assert.equal(iptablesText(kernel, "IPv6"), rules6);
    assert.deepEqual(
      held,
      new Map(),
      "owners are recorded only if they are known in both families",
    );
    repair();
    await clock.advance(60_000);
    await daemon.settled();
    assert.equal(held.get(key)?.service, "default/young");
    assert.equal(held.get(key6)?.service, "default/young6");
  });

  it("moves to the older Service if neither the record nor the rules exist", async () => {
    await daemon.stop();
    held = new Map();
    kernel.iptables.table("IPv4", "nat").flush();
    await start();
    assert.equal(served(), "old");
  });

  it("moves to the next Service when its owner stops claiming it, and stays there", async () => {
    source.apply(claiming("young", 2026, false));
    await settle();
    assert.equal(served(), "old");
    source.apply(claiming("young", 2026));
    await settle();
    assert.equal(served(), "old");
    held = new Map();
    await restart();
    assert.equal(served(), "old");
  });
});
