/** Tests userspace mode on loopback, from the objects to the answers. */
import assert from "node:assert/strict";
import { isIPv4 } from "node:net";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import type { Destination } from "../../../../src/answer/answers.ts";
import type { Explanation } from "../../../../src/answer/explanation.ts";
import type { ServiceRow } from "../../../../src/answer/rows.ts";
import { silentEvents } from "../../../../src/api/event.ts";
import { systemClock } from "../../../../src/base/clock.ts";
import { type IpAddress, parseIpAddress } from "../../../../src/base/ip.ts";
import { toServiceName } from "../../../../src/base/service-name.ts";
import { loadConfig } from "../../../../src/config/load-config.ts";
import type { ListenersView } from "../../../../src/daemon/operator/daemon-view.ts";
import { planFacts } from "../../../../src/daemon/operator/plan-facts.ts";
import { serviceRows } from "../../../../src/daemon/operator/service-rows.ts";
import { ProxyHealth } from "../../../../src/daemon/report/proxy-health.ts";
import {
  beginUserspace,
  type UserspaceContext,
} from "../../../../src/daemon/userspace/begin-userspace.ts";
import {
  readNodeAddresses,
  socketlessNetwork,
  type UserspaceKernel,
  usableConntrack,
} from "../../../../src/daemon/userspace/open-userspace-kernel.ts";
import { explainWith } from "../../../../src/explain/explain.ts";
import {
  type PrometheusMetrics,
  prometheusMetrics,
} from "../../../../src/metrics/prometheus-metrics.ts";
import type { Holders } from "../../../../src/plan/claims/claim.ts";
import { type HolderRecord, noHolderRecord } from "../../../../src/plan/claims/holder-record.ts";
import type { Flow } from "../../../../src/state/flow.ts";
import { noNftRules } from "../../../../src/state/nft-rule.ts";
import { toServerKey } from "../../../../src/state/virtual-server.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { dnsFlow } from "../../../support/flows.ts";
import { MemorySource, type NamedObject } from "../../../support/memory-source.ts";
import { endpointSlice, service } from "../../../support/objects.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { ip } from "../../../support/records.ts";
import { closedPort, readAll } from "../../userspace/backends.ts";

/** An address of this machine that endpoints may have. Loopback addresses are invalid. */
const flags = new Map([
  ["proxy-mode", ["userspace"]],
  ["bind-address", ["127.0.0.1"]],
  ["hostname-override", ["node-1"]],
  ["ipvs-min-sync-period", ["0s"]],
]);

type OpenUserspaceKernel = NonNullable<UserspaceContext["openKernel"]>;

/** All objects from the builders have names. */
const web = (options: Parameters<typeof service>[0] = {}): NamedObject =>
  service(options) as unknown as NamedObject;
const web10 = {
  ...({ protocol: "TCP", port: 80 } as const),
  address: parseIpAddress("10.96.0.10") ?? assert.fail(),
};
const slice = endpointSlice() as unknown as NamedObject;

class Stage {
  readonly source: MemorySource = new MemorySource();
  readonly log: RecordingLogger = new RecordingLogger();
  readonly health: ProxyHealth = new ProxyHealth(systemClock, 60_000);
  view: ListenersView | undefined;
  metrics: PrometheusMetrics = prometheusMetrics({ version: "0" });

  async start(
    test: TestContext,
    openKernel: OpenUserspaceKernel,
    holderRecord: HolderRecord = noHolderRecord,
    more: readonly (readonly [string, string[]])[] = [],
  ): Promise<this> {
    const { config } = loadConfig(new Map([...flags, ...more]), {
      readFile: () => "",
      hostname: () => "node-1",
    });
    const { source, log, health, metrics } = this;
    const parts = { clock: systemClock, log, health, metrics, source, events: silentEvents };
    const { stop, view } = await beginUserspace(config, {
      ...parts,
      holderRecord,
      openKernel,
    });
    test.after(stop);
    this.view = view;
    return this;
  }

  /** Explains packets from this node. */
  async explain(
    { iptables, link, ipvs, ipSets, sysctl }: FakeKernel,
    destination: Destination,
  ): Promise<readonly Explanation[]> {
    const view = this.view ?? assert.fail();
    const facts = await planFacts(view, { kind: "destination", destination });
    const source = parseIpAddress("10.244.1.1") ?? assert.fail();
    const readers = {
      ...{ link, ipvs, ipSets, sysctl },
      routes: {
        find: async () => ({ isLocal: false, isBridge: false, link: "eth0", linkIndex: 2, source }),
      },
      sockets: { listListening: () => [] },
      links: { listLinks: async () => [], listMarkRules: async () => [] },
      conntrack: { listFlows: async () => [] },
      recentLists: { clientsIn: () => [] },
      nftRules: { read: async () => ({ IPv4: noNftRules, IPv6: noNftRules }) },
      openRules: async () => iptables,
    };
    return await explainWith(readers, facts, "node");
  }
}

function usable(kernel: FakeKernel): UserspaceKernel {
  const { iptables, conntrack } = kernel;
  const families = ["IPv4"] as const;
  return { ...socketlessNetwork, iptables, conntrack, families, whole: kernel, close() {} };
}

const withoutIptables = async (): Promise<never> => {
  throw new Error("Cannot use iptables: not installed");
};

const skippedWithoutAddress =
  !readNodeAddresses().some(isIPv4) &&
  "this machine has no IPv4 address except on its loopback interface";

describe("userspace mode", () => {
  it("listens on node ports without iptables, and logs this", async (test) => {
    const { port: nodePort } = await closedPort();
    const stage = new Stage();
    const ports = [{ name: "http", protocol: "TCP", port: 80, nodePort }];
    stage.source.apply(web({ type: "NodePort", ports }));
    await stage.start(test, withoutIptables);
    while (stage.health.notReadyReason !== undefined) await pause(10);
    await assert.rejects(readAll(nodePort), /ECONNRESET/, "a listener without endpoints");
    const address = parseIpAddress("127.0.0.1") ?? assert.fail();
    const at = { protocol: "TCP", address, port: nodePort } as const;
    const [explanation] = await stage.explain(new FakeKernel(), at);
    assert.equal(
      explanation?.summary,
      `Packets from this node to 127.0.0.1:${nodePort} are handled by kube-ipvs and reset: no endpoint accepts connections`,
    );
    assert.deepEqual([explanation.verdict, explanation.service?.name], ["refused", "web"]);
    const [warning] = stage.log.lines.filter(({ level }) => level === "warn");
    assert.match(warning?.event ?? "", /^Cannot use iptables/);
    stage.source.delete(web());
    for (let tries = 0; tries < 100; tries += 1) {
      const error = await readAll(nodePort).catch(String);
      if (String(error).includes("ECONNREFUSED")) return;
      await pause(10);
    }
    assert.fail("still listening");
  });

  it("writes rules with iptables, and removes those of a deleted Service", async (test) => {
    const kernel = new FakeKernel();
    const { iptables } = kernel;
    const stage = new Stage();
    stage.source.apply(web(), slice);
    await stage.start(test, async () => usable(kernel));
    const rules = (): readonly string[] =>
      iptables
        .table("IPv4", "nat")
        .observe()
        .filter(({ name }) => name === "KUBE-PORTALS-HOST")
        .flatMap((chain) => chain.rules.map(({ text }) => text));
    while (stage.health.notReadyReason !== undefined) await pause(10);
    assert.match(
      rules().join(),
      /^-d 10\.96\.0\.10\/32 -p tcp .* --dport 80 -j REDIRECT --to-ports \d+$/,
    );
    const rows: ServiceRow[] = [];
    const query = { hasEndpoints: true, hasConnections: false };
    for await (const row of serviceRows(stage.view ?? assert.fail(), query)) rows.push(row);
    assert.deepEqual(
      rows.map(({ name, address, port, scheduler, reason, realServers, endpoints = [] }) => [
        ...[name, address, port, scheduler, reason, realServers.programmed],
        ...endpoints.map((one) => [one.address, one.reason]),
      ]),
      [["web", "10.96.0.10", 80, "rr", undefined, 1, ["10.244.1.10", undefined]]],
    );
    const [explanation] = await stage.explain(kernel, web10);
    assert.equal(
      explanation?.summary,
      "Packets from this node to 10.96.0.10:80 are handled by kube-ipvs and balanced over 1 of 1 endpoint",
    );
    assert.equal(explanation.packets[0]?.deliveries[0]?.seenSource, "10.244.1.1");
    assert.deepEqual(explanation.differences, []);
    const emptied = { table: "nat", name: "KUBE-PORTALS-HOST", rules: [] } as const;
    await iptables.apply("IPv4", [{ kind: "chain-write", chain: emptied }]);
    const [lost] = await stage.explain(kernel, web10);
    assert.match(lost?.packets[0]?.planned ?? "", /are handled by kube-ipvs/);
    assert.match(lost?.summary ?? "", /are routed on through eth0/);
    assert.equal(lost?.differences[0]?.kind, "missing");
    stage.source.delete(web());
    for (let tries = 0; rules().length > 0 && tries < 100; tries += 1) await pause(10);
    assert.deepEqual(rules(), []);
  });

  it("deletes UDP flows to sockets of an earlier process, and to removed endpoints", {
    skip: skippedWithoutAddress,
  }, async (test) => {
    const kernel = new FakeKernel();
    const [nodeAddress = assert.fail()] = readNodeAddresses().filter(isIPv4);
    const [alive, gone] = [ip("10.244.1.5"), ip("10.244.1.6")];
    const flow = (answer: IpAddress, replySourcePort: number): Flow =>
      dnsFlow({ sourcePort: replySourcePort, replySource: answer, replySourcePort });
    const answers = (): readonly number[] =>
      kernel.conntrack.flows.map(({ replySourcePort }) => replySourcePort);
    const dns = web({ ports: [{ name: "dns", protocol: "UDP", port: 53, targetPort: 5353 }] });
    const ports = [{ name: "dns", protocol: "UDP", port: 5353 }];
    const endpoints = (...given: string[]): NamedObject =>
      endpointSlice({ ports, endpoints: given }) as unknown as NamedObject;
    const stage = new Stage();
    stage.source.apply(dns, endpoints(alive, gone));
    kernel.conntrack.flows = [flow(nodeAddress, 1), flow(ip("10.96.0.10"), 53), flow(alive, 5353)];
    await stage.start(test, async () => usable(kernel));
    while (stage.health.notReadyReason !== undefined) await pause(10);
    assert.deepEqual(answers(), [5353]);
    const [{ port, portOnLoopback } = assert.fail()] =
      stage.view?.open().map(({ localPorts }) => localPorts) ?? [];
    kernel.conntrack.flows = [
      ...[flow(nodeAddress, port), flow(ip("127.0.0.1"), portOnLoopback)],
      ...[flow(alive, 5353), { ...flow(gone, 5353), sourcePort: 1 }],
    ];
    stage.source.apply(endpoints(alive));
    for (let tries = 0; kernel.conntrack.flows.length > 3 && tries < 100; tries += 1)
      await pause(10);
    assert.deepEqual(answers(), [port, portOnLoopback, 5353]);
    stage.source.delete(dns);
    for (let tries = 0; kernel.conntrack.flows.length > 0 && tries < 100; tries += 1)
      await pause(10);
    assert.deepEqual(answers(), []);
  });

  it("serves UDP Services if the kernel cannot list conntrack entries", async (test) => {
    const kernel = new FakeKernel();
    kernel.conntrack.listUdpFlows = () => Promise.reject(new Error("no nf_conntrack_netlink"));
    const stage = new Stage();
    stage.source.apply(web({ ports: [{ name: "dns", protocol: "UDP", port: 53 }] }));
    const conntrack = await usableConntrack(kernel.conntrack, stage.log);
    await stage.start(test, async () => ({ ...usable(kernel), conntrack }));
    while (stage.health.notReadyReason !== undefined) await pause(10);
    assert.deepEqual(
      stage.log.lines.filter(({ level }) => level !== "verbose").map(({ event }) => event),
      ["Cannot delete stale conntrack entries", "Initial lists completed", "First sync completed"],
    );
  });

  it("opens and writes nothing with observeOnly, and logs what it would do", async (test) => {
    const { port: nodePort } = await closedPort();
    const ports = [{ name: "http", protocol: "TCP", port: 80, nodePort }];
    const kernel = new FakeKernel();
    const kept: Holders[] = [];
    const record = { held: new Map(), keepHolders: (held: Holders) => void kept.push(held) };
    const observing = [["kube-ipvs-observe-only", ["true"]]] as const;
    const would = async (open: OpenUserspaceKernel): Promise<readonly unknown[]> => {
      const stage = new Stage();
      stage.source.apply(web({ type: "NodePort", ports }), slice);
      await stage.start(test, open, record, observing as never);
      while (stage.health.notReadyReason !== undefined) await pause(10);
      await assert.rejects(readAll(nodePort), /ECONNREFUSED/);
      const rows: ServiceRow[] = [];
      const query = { hasEndpoints: false, hasConnections: false };
      for await (const row of serviceRows(stage.view ?? assert.fail(), query)) rows.push(row);
      assert.deepEqual(new Set(rows.map(({ reason }) => reason)), new Set(["pending"]));
      const text = await stage.metrics.exposition();
      assert.match(text, /^kube_ipvs_pending_changes\{kind="listener-open"\} 1$/m);
      return stage.log.lines
        .filter(({ event }) => event === "Would change")
        .map(({ keys }) => keys?.["change"]);
    };
    assert.deepEqual(await would(withoutIptables), [`+ TCP 127.0.0.1:${nodePort}`]);
    const [listener, ...rules] = await would(async () => usable(kernel));
    assert.equal(listener, `+ TCP 0.0.0.0 at a free port for 10.96.0.10:80, node port ${nodePort}`);
    assert.equal(rules.length, 10);
    assert.deepEqual(kernel.operations.texts(), []);
    assert.deepEqual(kept, []);
  });

  it("leaves an address to the Service that the rules of an earlier process lead to", async (test) => {
    const kernel = new FakeKernel();
    const spec = { externalIPs: ["203.0.113.7"] };
    const metadata = { creationTimestamp: "2026-02-02T00:00:00Z" };
    const young = web({ name: "young", clusterIps: ["10.96.0.11"], spec, metadata });
    const leading = (): readonly string[] =>
      kernel.iptables
        .table("IPv4", "nat")
        .observe()
        .filter(({ name }) => name === "KUBE-PORTALS-CONTAINER")
        .flatMap(({ rules }) => rules.map(({ text }) => text))
        .filter((text) => text.includes("203.0.113.7/32"))
        .map((text) => /"default\/(\w+):http"/.exec(text)?.[1] ?? text);
    for (const objects of [[young], [web({ spec }), young]]) {
      const stage = new Stage();
      stage.source.apply(...objects);
      await stage.start(test, async () => usable(kernel));
      while (stage.health.notReadyReason !== undefined) await pause(10);
      assert.deepEqual(leading(), ["young"]);
    }
  });

  it("leaves an address to the Service in the record, and reports the other one", async (test) => {
    const spec = { externalIPs: ["203.0.113.7"] };
    const key = toServerKey("TCP 203.0.113.7:80");
    const young = { creationTimestamp: "2026-02-02T00:00:00Z" };
    const stage = new Stage();
    stage.source.apply(
      web({ spec }),
      web({ name: "young", clusterIps: ["10.96.0.11"], spec, metadata: young }),
    );
    const holder = { service: toServiceName("default/young"), createdAtSeconds: 1_769_990_400 };
    const kept: Holders[] = [];
    await stage.start(test, withoutIptables, {
      held: new Map([[key, holder]]),
      keepHolders: (holders) => void kept.push(holders),
    });
    while (stage.health.notReadyReason !== undefined) await pause(10);
    assert.deepEqual(kept.at(-1)?.get(key), holder);
    assert.deepEqual(
      stage.log.lines.filter(({ event }) => event.includes("claimed")).map(({ keys }) => keys),
      [
        {
          ...{ virtualServer: key, winner: "default/young:http", loser: "default/web:http" },
          ...{ claim: "held-before", reason: "claimed-by-another-service" },
        },
      ],
    );
    const rows: unknown[] = [];
    const query = { hasEndpoints: false, hasConnections: false };
    for await (const row of serviceRows(stage.view ?? assert.fail(), query)) {
      if (row.frontend === "external-ip") rows.push([row.name, row.claimedBy?.name]);
    }
    assert.deepEqual(rows, [
      ["web", "young"],
      ["young", undefined],
    ]);
  });
});
