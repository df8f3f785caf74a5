import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PodRecord, SelectingService } from "../../../src/endpoint-slices/objects.ts";
import { planSlices } from "../../../src/endpoint-slices/plan-slices.ts";
import { ip, pod, pods, SliceShelf, selecting, served } from "./slices.ts";

/** Plans a Service's slices without existing ones. */
function made(service: SelectingService, ...of: readonly PodRecord[]): SliceShelf["stored"] {
  const shelf = new SliceShelf();
  shelf.sync(service, of);
  assert.equal(shelf.sync(service, of), 0, "a second sync writes nothing");
  return shelf.stored;
}

describe("a Service's endpoints", () => {
  it("are its Pods, with node, identity and owner", () => {
    const [slice, ...more] = made(selecting(), pod(1), pod(2, { labels: { app: "other" } }));
    assert.deepEqual(more, []);
    assert.equal(slice?.name, "default/web-ipv4-0");
    assert.equal(slice.ownerUid, "service-uid");
    assert.deepEqual(slice.labels, {
      "kubernetes.io/service-name": "web",
      "endpointslice.kubernetes.io/managed-by": "kube-ipvs-endpoint-controller",
    });
    assert.deepEqual(slice.ports, [{ name: "http", protocol: "TCP", port: 8080, appProtocol: "" }]);
    assert.deepEqual(slice.endpoints, [
      {
        pod: "default/p0001",
        podUid: "uid-1",
        address: "10.0.0.2",
        nodeName: "node-1",
        hostname: "",
        isReady: true,
        isServing: true,
        isTerminating: false,
      },
    ]);
  });

  it("have the zone of their node, and hints if the Service requests nearby endpoints", () => {
    const endpointsOf = (fields: Partial<SelectingService>): readonly unknown[] => {
      const situation = { name: "default/web", stored: [], isNameTaken: () => false } as const;
      const notReady = pod(2, { isReady: false });
      const plan = planSlices({
        ...situation,
        service: selecting(fields),
        pods: [pod(1), notReady, pod(3, { nodeName: "node-2" })],
        zoneOf: (name) => (name === "node-1" ? "z1" : undefined),
      });
      return plan.creates.flatMap(({ endpoints }) =>
        endpoints.map(({ zone, zoneHints, nodeHints }) => [zone, zoneHints, nodeHints]),
      );
    };
    const none = [undefined, undefined, undefined];
    assert.deepEqual(endpointsOf({}), [
      ["z1", undefined, undefined],
      ["z1", undefined, undefined],
      none,
    ]);
    assert.deepEqual(endpointsOf({ trafficDistribution: "zone" }), [
      ["z1", ["z1"], undefined],
      ["z1", undefined, undefined],
      none,
    ]);
    assert.deepEqual(endpointsOf({ trafficDistribution: "node" }), [
      ["z1", ["z1"], ["node-1"]],
      ["z1", undefined, undefined],
      [undefined, undefined, ["node-2"]],
    ]);
  });

  it("do not include Pods in another namespace or without a label in the selector", () => {
    const service = selecting({ selector: { app: "web", tier: "front" } });
    const labels = { app: "web", tier: "front", more: "x" };
    const found = made(service, pod(1), pod(2, { labels, name: "other/p2" }), pod(3, { labels }));
    assert.deepEqual(
      found.flatMap(({ endpoints }) => endpoints.map((endpoint) => endpoint.pod)),
      ["default/p0003"],
    );
  });

  it("have conditions: ready, serving, terminating", () => {
    const states = [
      { isReady: true, isTerminating: false },
      { isReady: false, isTerminating: false },
      { isReady: true, isTerminating: true },
      { isReady: false, isTerminating: true },
    ];
    const flags = (publishesNotReady: boolean): readonly string[] =>
      served(
        made(selecting({ publishesNotReady }), ...states.map((state, at) => pod(at, state))),
      ).map((line) => line.trim().split(" ").at(-1) ?? "");
    assert.deepEqual(flags(false), ["110", "000", "011", "001"]);
    assert.deepEqual(flags(true), ["110", "100", "111", "101"]);
  });

  it("have each Pod's own port for a named target port, and omit Pods without it", () => {
    const http = { name: "http", protocol: "TCP", target: "web", appProtocol: "h2c" } as const;
    const fixed = { name: "metrics", protocol: "TCP", target: 9100, appProtocol: "" } as const;
    const at = (port: number, protocol: "TCP" | "UDP" = "TCP"): Partial<PodRecord> => ({
      namedPorts: [{ name: "web", protocol, port }],
    });
    const stored = made(
      selecting({ ports: [http, fixed] }),
      pod(1, at(80)),
      pod(2, at(81)),
      pod(3, at(80)),
      pod(4, at(80, "UDP")),
    );
    assert.equal(stored.length, 3);
    assert.deepEqual(served(stored), [
      "IPv4 default/p0001 10.0.0.2 http=80/TCP,metrics=9100/TCP 110 ",
      "IPv4 default/p0002 10.0.0.3 http=81/TCP,metrics=9100/TCP 110 ",
      "IPv4 default/p0003 10.0.0.4 http=80/TCP,metrics=9100/TCP 110 ",
      "IPv4 default/p0004 10.0.0.5 metrics=9100/TCP 110 ",
    ]);
    assert.equal(stored[0]?.ports[0]?.appProtocol, "h2c");
  });

  it("have slices for each family, with the Pods that have such an address", () => {
    const both = [ip("10.0.0.9"), ip("fd00::9")];
    const stored = made(
      selecting({ families: ["IPv4", "IPv6"] }),
      pod(1),
      pod(2, { addresses: both }),
    );
    assert.deepEqual(
      stored.map(({ name, family, endpoints }) => [name, family, endpoints.length]),
      [
        ["default/web-ipv4-0", "IPv4", 2],
        ["default/web-ipv6-0", "IPv6", 1],
      ],
    );
  });

  it("use the families of the Pods if the Service names none", () => {
    const stored = made(selecting({ families: [] }), pod(1, { addresses: [ip("fd00::1")] }));
    assert.deepEqual(
      stored.map(({ family }) => family),
      ["IPv6"],
    );
  });

  it("of a headless Service have the hostnames of Pods in its subdomain, and may have no ports", () => {
    const headless = selecting({ isHeadless: true, ports: [], labels: { tier: "db" } });
    const [slice] = made(
      headless,
      pod(1, { hostname: "db-0", subdomain: "web" }),
      pod(2, { hostname: "db-1", subdomain: "other" }),
    );
    assert.deepEqual(
      slice?.endpoints.map(({ hostname }) => hostname),
      ["db-0", ""],
    );
    assert.deepEqual(slice.ports, []);
    assert.equal(slice.labels["service.kubernetes.io/headless"], "");
    assert.equal(slice.labels["tier"], "db");
  });

  it("are in the same slices regardless of the order of their Pods", () => {
    const all = pods(250);
    assert.deepEqual(made(selecting(), ...all.toReversed()), made(selecting(), ...all));
  });

  it("are at most 100 in a slice", () => {
    const sizes = made(selecting(), ...pods(250)).map(({ endpoints }) => endpoints.length);
    assert.deepEqual(sizes, [100, 100, 50]);
  });
});

describe("a Service without Pods", () => {
  it("has one empty slice, to which its first Pod is added", () => {
    const shelf = new SliceShelf();
    assert.equal(shelf.sync(selecting(), []), 1);
    assert.equal(shelf.stored[0]?.hasEndpoints, false);
    assert.equal(shelf.sync(selecting(), [pod(1)]), 1);
    assert.deepEqual(
      shelf.stored.map(({ name, hasEndpoints }) => [name, hasEndpoints]),
      [["default/web-ipv4-0", true]],
    );
    assert.equal(shelf.sync(selecting(), []), 1);
    assert.equal(shelf.stored.length, 1);
  });

  it("has an empty IPv4 slice if it names no family", () => {
    const [slice, ...more] = made(selecting({ families: [] }));
    assert.deepEqual([slice?.family, slice?.hasEndpoints, more], ["IPv4", false, []]);
  });
});

describe("a change", () => {
  it("of one Pod among 1,000 writes one slice", () => {
    const shelf = new SliceShelf();
    const all = pods(1_000);
    shelf.sync(selecting(), all);
    all[500] = pod(500, { isReady: false });
    assert.equal(shelf.sync(selecting(), all), 1);
    all.splice(10, 1);
    assert.equal(shelf.sync(selecting(), all), 1);
    all.push(pod(2_000));
    assert.equal(shelf.sync(selecting(), all), 1, "fills the gap in one slice");
    all.push(pod(2_001));
    assert.equal(shelf.sync(selecting(), all), 1, "a new slice: all are full");
  });

  it("of a Pod adds a new one to the slice that is written anyway, not to a fuller one", () => {
    const shelf = new SliceShelf();
    const all = pods(150);
    shelf.sync(selecting(), all);
    all.shift();
    shelf.sync(selecting(), all);
    all[110] = pod(111, { isReady: false });
    assert.equal(shelf.sync(selecting(), [...all, pod(2_000)]), 1);
  });

  it("that empties a slice fills another one, and the empty slice is deleted", () => {
    const shelf = new SliceShelf();
    const all = pods(150);
    shelf.sync(selecting(), all);
    shelf.sync(selecting(), [...all.slice(101), pod(2_000)]);
    assert.deepEqual(
      shelf.stored.map(({ endpoints }) => endpoints.length),
      [50],
    );
  });

  it("of the target port writes each slice once and removes none", () => {
    const shelf = new SliceShelf();
    shelf.sync(selecting(), pods(250));
    const ports = [{ name: "http", protocol: "TCP", target: 9090, appProtocol: "" }] as const;
    assert.equal(shelf.sync(selecting({ ports }), pods(250)), 3);
    assert.deepEqual(shelf.stored.map(({ name }) => name).sort(), [
      "default/web-ipv4-0",
      "default/web-ipv4-1",
      "default/web-ipv4-2",
    ]);
  });

  it("that replaces every Pod of a slice writes only that slice", () => {
    const shelf = new SliceShelf();
    shelf.sync(selecting(), pods(100));
    assert.equal(shelf.sync(selecting(), pods(100, 100)), 1);
  });

  it("of the Service's labels or identity writes each slice once", () => {
    const shelf = new SliceShelf();
    shelf.sync(selecting(), pods(150));
    assert.equal(shelf.sync(selecting({ labels: { a: "b" } }), pods(150)), 2);
    assert.equal(shelf.sync(selecting({ labels: {}, uid: "made again" }), pods(150)), 2);
    assert.deepEqual(
      new Set(shelf.stored.map(({ ownerUid }) => ownerUid)),
      new Set(["made again"]),
    );
  });

  it("of a Pod that gets a new address under its name rewrites its endpoint in place", () => {
    const shelf = new SliceShelf();
    shelf.sync(selecting(), pods(150));
    const all = pods(150);
    all[3] = pod(3, { addresses: [ip("10.9.9.9")], uid: "second" });
    assert.equal(shelf.sync(selecting(), all), 1);
  });

  it("by a third party in a slice of the controller is overwritten", () => {
    const shelf = new SliceShelf();
    shelf.sync(selecting(), pods(2));
    const [slice] = shelf.stored;
    assert.ok(slice);
    shelf.stored = [{ ...slice, endpoints: [...slice.endpoints, ...slice.endpoints] }];
    assert.equal(shelf.sync(selecting(), pods(2)), 1);
    assert.deepEqual(shelf.stored[0]?.endpoints, slice.endpoints);
  });
});

describe("a Service's slices", () => {
  it("are deleted with the Service, or with a family that it no longer has", () => {
    const shelf = new SliceShelf();
    const both = [pod(1, { addresses: [ip("10.0.0.1"), ip("fd00::1")] })];
    shelf.sync(selecting({ families: ["IPv4", "IPv6"] }), both);
    assert.equal(shelf.sync(selecting(), both), 1);
    assert.deepEqual(
      shelf.stored.map(({ family }) => family),
      ["IPv4"],
    );
    assert.equal(shelf.sync(undefined, both), 1);
    assert.deepEqual(shelf.stored, []);
  });

  it("of another manager are kept, and the Service is skipped", () => {
    const shelf = new SliceShelf();
    shelf.sync(selecting(), pods(2));
    const [ours] = shelf.stored;
    assert.ok(ours);
    const theirs = {
      ...ours,
      name: "default/web-abc",
      managedBy: "endpointslice-controller.k8s.io",
    };
    shelf.stored = [{ ...theirs, hasEndpoints: false }];
    const plan = shelf.plan(selecting(), pods(2));
    assert.deepEqual(plan, {
      creates: [],
      updates: [],
      deletes: [],
      managedBy: "endpointslice-controller.k8s.io",
    });
    shelf.stored = [ours, { ...theirs, hasEndpoints: false }];
    assert.deepEqual(
      shelf.plan(selecting(), []).deletes,
      [],
      "the controller's slices remain while the others are empty",
    );
    shelf.stored = [ours, theirs];
    assert.deepEqual(shelf.plan(selecting(), pods(2)).deletes, [ours]);
    shelf.stored = [{ ...theirs, managedBy: "" }];
    assert.equal(shelf.plan(selecting(), pods(2)).managedBy, "");
    assert.deepEqual(shelf.plan(undefined, []).deletes, []);
  });
});
