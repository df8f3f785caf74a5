/** Uses a clock that the test controls to check when userspace mode's loop syncs. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentEvents } from "../../../../src/api/event.ts";
import { errno } from "../../../../src/base/errno.ts";
import { silentLogger } from "../../../../src/base/log.ts";
import { loadConfig } from "../../../../src/config/load-config.ts";
import { LoopReporter } from "../../../../src/daemon/report/loop-reporter.ts";
import { ProxyHealth } from "../../../../src/daemon/report/proxy-health.ts";
import { socketlessNetwork } from "../../../../src/daemon/userspace/open-userspace-kernel.ts";
import {
  UserspaceLoop,
  type UserspaceLoopContext,
} from "../../../../src/daemon/userspace/userspace-loop.ts";
import { prometheusMetrics } from "../../../../src/metrics/prometheus-metrics.ts";
import { portalRules } from "../../../../src/userspace/portal-rules.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { ip, serviceRecord } from "../../../support/records.ts";
import { listenerFor } from "../../userspace/backends.ts";

const flags = new Map([
  ["proxy-mode", ["userspace"]],
  ["hostname-override", ["node-1"]],
  ["ipvs-min-sync-period", ["0s"]],
]);
const { config } = loadConfig(flags, { readFile: () => "", hostname: () => "node-1" });

function loopOn(
  clock: FakeClock,
  {
    health = new ProxyHealth(clock, 60_000),
    log = silentLogger,
    ...parts
  }: Partial<UserspaceLoopContext> & { readonly health?: ProxyHealth },
): UserspaceLoop {
  const metrics = prometheusMetrics({ version: "0" });
  return new UserspaceLoop(
    {
      ...{ clock, log },
      reporter: new LoopReporter({
        ...{ clock, log, health, metrics, events: silentEvents, nodeName: "node-1" },
      }),
      proxier: {
        openCount: 0,
        open: () => [],
        isOpen: () => false,
        replaceServices: async () => {},
        retryFailed: async () => {},
        stop: async () => {},
      },
      families: ["IPv4"],
      kernel: socketlessNetwork,
      ...parts,
    },
    { current: config },
  );
}

describe("the loop of userspace mode", () => {
  it("continues with the last state of a deleted Node object, and logs this", async () => {
    const clock = new FakeClock();
    const log = new RecordingLogger();
    const health = new ProxyHealth(clock, 60_000);
    const loop = loopOn(clock, { log, health });
    const node = { name: "node-1", addresses: [], podCidrs: [], zone: "z1", isEligible: false };
    loop.start();
    loop.input.noteNode(node);
    for (const kind of ["nodes", "services", "endpointslices"] as const)
      loop.input.noteSynced(kind);
    loop.input.noteNode(undefined);
    await clock.advance(1_000);
    assert.equal(loop.place.zone, "z1");
    assert.equal(health.report().isNodeEligible, false);
    assert.deepEqual(
      log.lines.filter(({ level }) => level === "warn").map(({ event }) => event),
      ["Node object deleted; using its last known state"],
    );
    loop.input.noteNode({ ...node, zone: "z2", isEligible: true });
    await clock.advance(1_000);
    assert.equal(loop.place.zone, "z2");
    assert.equal(health.report().isNodeEligible, true);
    await loop.stop();
  });

  it("reports Service annotations, because they apply only in IPVS mode", async () => {
    const clock = new FakeClock();
    const log = new RecordingLogger();
    const loop = loopOn(clock, { log });
    loop.start();
    const annotations = { "kube-ipvs.io/one-packet": "yes", "kube-ipvs.io/scheduler": "wrr" };
    loop.input.noteService(undefined, serviceRecord({ annotations }));
    for (const kind of ["nodes", "services", "endpointslices"] as const)
      loop.input.noteSynced(kind);
    await clock.advance(1_000);
    await loop.settled();
    const ignored = log.lines.filter(({ event }) => event === "Ignoring annotation");
    assert.deepEqual(
      ignored.map(({ keys }) => keys["reason"]),
      ["invalid-annotation", "annotation-without-effect"],
    );
    await loop.stop();
  });

  it("serves no new external IP while Nodes cannot be listed, and keeps one that rules lead to", async () => {
    const clock = new FakeClock();
    const kernel = new FakeKernel();
    const { iptables } = kernel;
    const rule = `-d 203.0.113.5/32 -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 40000`;
    const { chains } = portalRules("IPv4", []);
    await iptables.apply(
      "IPv4",
      chains.map((chain) => ({ kind: "chain-write", chain }) as const),
    );
    iptables.table("IPv4", "nat").append("KUBE-PORTALS-CONTAINER", rule);
    const addresses = new Set<string>();
    const proxier: UserspaceLoopContext["proxier"] = {
      ...{ openCount: 0, open: () => [], isOpen: () => false },
      ...{ retryFailed: async () => {}, stop: async () => {} },
      replaceServices: async (services) => {
        for (const one of [...services.values()].flat())
          for (const address of one.addresses) addresses.add(address);
      },
    };
    const listNodes = () => Promise.reject(new Error("nodes is forbidden"));
    const loop = loopOn(clock, { proxier, tables: kernel, source: { listNodes } });
    loop.start();
    const externalIps = [ip("203.0.113.5"), ip("203.0.113.6")];
    loop.input.noteService(undefined, serviceRecord({ externalIps }));
    for (const kind of ["nodes", "services", "endpointslices"] as const)
      loop.input.noteSynced(kind);
    await clock.advance(10_000);
    await loop.settled();
    assert.ok(addresses.has("203.0.113.5") && !addresses.has("203.0.113.6"), [...addresses].join());
    await loop.stop();
  });

  it("admits clients to listeners only after the kernel has accepted the rules that guard their ports", async () => {
    const clock = new FakeClock();
    const kernel = new FakeKernel();
    const open = [
      { wanted: listenerFor([]), localPorts: { port: 40_000, portOnLoopback: 40_000 } },
    ];
    const guarded: (readonly number[])[] = [];
    const proxier: UserspaceLoopContext["proxier"] = {
      ...{ openCount: 0, open: () => open, isOpen: () => true },
      ...{ retryFailed: async () => {}, replaceServices: async () => {}, stop: async () => {} },
      noteGuarded: (listeners) => guarded.push(listeners.map(({ localPorts }) => localPorts.port)),
    };
    const { iptables } = kernel;
    iptables.rejects = (_, change) =>
      change.kind === "chain-write" && change.chain.table === "filter";
    const loop = loopOn(clock, { proxier, tables: kernel });
    loop.start();
    for (const kind of ["nodes", "services", "endpointslices"] as const)
      loop.input.noteSynced(kind);
    await clock.advance(1_000);
    assert.deepEqual(guarded, []);
    iptables.rejects = () => false;
    kernel.operations.failWhere(({ action }) => action === "list-udp-flows", errno.EPERM);
    await clock.advance(10_000);
    assert.deepEqual(guarded.at(-1), [40_000]);
    await loop.stop();
  });

  it("retries a family's rejected rule less and less often, and writes all others", async () => {
    const clock = new FakeClock();
    const kernel = new FakeKernel();
    const log = new RecordingLogger();
    const wanted = [listenerFor([], { nodePort: 30_080 }), listenerFor([], { port: 81 })];
    const open = wanted.map((one, index) => {
      const port = 40_000 + index;
      return { wanted: one, localPorts: { port, portOnLoopback: port } };
    });
    const proxier: UserspaceLoopContext["proxier"] = {
      ...{ openCount: 0, open: () => open, isOpen: () => true },
      ...{ retryFailed: async () => {}, replaceServices: async () => {}, stop: async () => {} },
    };
    const triedAtMs: number[] = [];
    const beganMs = clock.monotonicMs();
    const restore = kernel.iptables.apply.bind(kernel.iptables);
    let isRefused = true;
    kernel.iptables.apply = async (family, changes) => {
      const isFaulty = changes.some(
        (change) =>
          change.kind === "chain-write" &&
          change.chain.rules.some(
            ({ target }) => target.kind === "redirect" && target.port === 40_001,
          ),
      );
      if (isRefused && isFaulty) {
        triedAtMs.push(clock.monotonicMs());
        throw Object.assign(new Error("rejected"), { exitCode: 2 });
      }
      return restore(family, changes);
    };
    const loop = loopOn(clock, { log, proxier, tables: kernel });
    loop.start();
    for (const kind of ["nodes", "services", "endpointslices"] as const)
      loop.input.noteSynced(kind);
    await clock.advance(300_000);
    const rulesIn = (name: string): number =>
      kernel.iptables
        .table("IPv4", "nat")
        .observe()
        .find((chain) => chain.name === name)?.rules.length ?? 0;
    assert.deepEqual(["KUBE-PORTALS-HOST", "KUBE-NODEPORT-HOST"].map(rulesIn), [1, 1]);
    const seconds = [...new Set(triedAtMs.map((atMs) => Math.round((atMs - beganMs) / 1_000)))];
    assert.deepEqual(seconds, [0, 2, 6, 14, 30, 62, 126, 254]);
    assert.ok(log.lines.some(({ event }) => event === "First sync completed"));
    isRefused = false;
    await clock.advance(300_000);
    assert.equal(rulesIn("KUBE-PORTALS-HOST"), 2);
    await loop.stop();
  });
});
