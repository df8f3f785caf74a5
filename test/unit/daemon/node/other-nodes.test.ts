import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { NodeRecord } from "../../../../src/api/objects.ts";
import type { Nodes } from "../../../../src/api/source.ts";
import type { IpAddress } from "../../../../src/base/ip.ts";
import { OtherNodes, type OtherNodesContext } from "../../../../src/daemon/node/other-nodes.ts";
import { planFacts } from "../../../../src/daemon/operator/plan-facts.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { FakeNode } from "../../../support/fake-node.ts";
import type { NamedObject } from "../../../support/memory-source.ts";
import { endpointSlice, service } from "../../../support/objects.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import {
  cidr,
  endpointRecord,
  ip,
  nodeRecords,
  serviceRecord,
  sliceRecord,
} from "../../../support/records.ts";

const [own, other, second] = [ip("192.168.10.11"), ip("192.168.10.12"), ip("fd00:10::12")];
const cluster: Readonly<Record<string, readonly IpAddress[]>> = {
  "node-1": [own],
  "node-2": [other, second],
};
const manyNodes = (count: number): Nodes =>
  nodeRecords(Object.fromEntries(Array.from({ length: count }, (_, n) => [`node-${n}`, []])));
const claiming = (...externalIps: readonly IpAddress[]) => serviceRecord({ externalIps });
const balancing = (...loadBalancerIps: readonly IpAddress[]) => serviceRecord({ loadBalancerIps });

/** An instance whose reads the test controls. */
class Stage {
  readonly clock = new FakeClock();
  readonly log = new RecordingLogger();
  nodes: Nodes | Error = nodeRecords(cluster);
  readings = 0;
  changes = 0;
  readonly others: OtherNodes;
  #held = Promise.withResolvers<void>();

  constructor(overrides: Partial<OtherNodesContext> = {}) {
    this.#held.resolve();
    const listNodes = async (): Promise<Nodes> => {
      this.readings += 1;
      await this.#held.promise;
      if (this.nodes instanceof Error) throw this.nodes;
      return this.nodes;
    };
    this.others = new OtherNodes({
      source: { listNodes },
      clock: this.clock,
      log: this.log,
      nodeName: "node-1",
      periodMs: 600_000,
      random: () => 0.5,
      onChange: () => {
        this.changes += 1;
      },
      ...overrides,
    });
  }

  /** Completes the list of Services, which contains only this Service. */
  async listed(service = claiming(other)): Promise<void> {
    this.others.noteService(undefined, service);
    this.others.noteListed();
    await this.clock.advance(0);
  }

  get reserved(): readonly string[] {
    return [...this.others.reserved];
  }

  get unchecked(): readonly string[] {
    return [...this.others.pending.externalIps];
  }

  get pendingBalancers(): readonly string[] {
    return [...this.others.pending.loadBalancerIps];
  }

  /** From now on, reads wait until {@link release}. */
  hold(): void {
    this.#held = Promise.withResolvers();
  }

  async release(): Promise<void> {
    this.#held.resolve();
    await this.clock.advance(0);
  }
}

describe("other Nodes", () => {
  it("are waited for only if they can be listed", () => {
    assert.equal(new Stage().others.isReady, false);
    assert.equal(new Stage({ source: {} }).others.isReady, true);
    assert.equal(new Stage({ periodMs: 0 }).others.isReady, true);
  });
});

it("an empty list of Nodes admits no external IP", async () => {
  for (const isStart of [true, false]) {
    const stage = new Stage();
    if (!isStart) await stage.listed();
    stage.nodes = new Map();
    const added = ip("192.168.10.99");
    if (isStart) await stage.listed(claiming(added));
    else stage.others.noteService(undefined, claiming(added));
    await stage.clock.advance(60_000);
    assert.deepEqual(stage.unchecked, [added]);
    assert.equal(stage.others.hasFailed, true);
    stage.nodes = nodeRecords({ ...cluster, "node-3": [added] });
    await stage.clock.advance(1_200_000);
    assert.deepEqual([stage.unchecked, stage.reserved.includes(added)], [[], true]);
    stage.others.stop();
  }
});

describe("a daemon whose Services name another Node's address", () => {
  for (const policy of ["serve", "refuse"]) {
    it(`neither binds nor serves it, from the first sync on, with reservedAddresses: ${policy}, and serves it when that Node is gone`, async () => {
      const node = new FakeNode({ "kube-ipvs-reserved-addresses": policy });
      let nodes: Nodes = nodeRecords(cluster);
      Object.assign(node.source, { listNodes: async () => nodes });
      const addresses = ["203.0.113.5", other];
      const web = service({ name: "web", spec: { externalIPs: addresses } });
      // All objects from the builders have names.
      node.source.apply(...([web, endpointSlice()] as unknown as NamedObject[]));
      await node.start();
      await node.settle();
      const served = async (): Promise<readonly boolean[]> => {
        const { ipvs, addresses: bound } = await node.state();
        return [ipvs, bound].map((text) => text?.includes(other) === true);
      };
      assert.deepEqual(await served(), [false, false]);
      assert.match((await node.state()).addresses ?? "", /203\.0\.113\.5/);
      assert.equal(node.figures()["conflicts other-node-address"], 1);
      nodes = nodeRecords({ "node-1": [own] });
      await node.wait(700_000);
      await node.settle();
      assert.deepEqual(await served(), [true, true]);
      await node.stop();
    });
  }
});

for (const mode of ["ipvs", "iptables"]) {
  it(`a daemon in ${mode} mode never serves addresses of pods, and stops serving those of a Node that joins later`, async () => {
    const node = new FakeNode({ "proxy-mode": mode, "iptables-min-sync-period": "0s" });
    const pods = ["10.244.1.7", "10.244.2.7", "fd00:244:2::7"];
    const nodeWith = (...networks: readonly string[]) => ({
      addresses: [],
      podCidrs: networks.map(cidr),
    });
    let nodes: Nodes = new Map([["node-1", nodeWith("10.244.1.0/24")]]);
    Object.assign(node.source, { listNodes: async () => nodes });
    const clusterIps = ["10.96.0.10", "fd00:96::10"];
    const web = service({ name: "web", clusterIps, spec: { externalIPs: pods } });
    const slices = [
      endpointSlice(),
      endpointSlice({ name: "web-6", endpoints: ["fd00:244:9::9"] }),
    ];
    node.source.apply(...([web, ...slices] as unknown as NamedObject[]));
    await node.start();
    await node.settle();
    const served = async (): Promise<readonly string[]> => {
      const { ipvs = "", addresses = "", ...rules } = await node.state();
      const texts = [ipvs, addresses, rules["iptables"] ?? "", rules["ip6tables"] ?? ""].join("\n");
      return pods.filter((address) => texts.includes(address));
    };
    assert.deepEqual(await served(), ["10.244.2.7", "fd00:244:2::7"]);
    nodes = new Map([...nodes, ["node-2", nodeWith("10.244.2.0/24", "fd00:244:2::/64")]]);
    await node.wait(700_000);
    await node.settle();
    assert.deepEqual(await served(), []);
    assert.equal(node.figures()["conflicts pod-address"], 3);
    await node.restart();
    await node.settle();
    assert.deepEqual(await served(), []);
    const destination = { protocol: "TCP", address: ip("10.244.1.7"), port: 80 } as const;
    const { conflicts } = await planFacts(node.modeView, { kind: "destination", destination });
    assert.equal(
      conflicts[0]?.message,
      "10.244.1.7 is not served on this node: it is in the pod CIDR of a Node",
    );
    nodes = new Map([["node-1", nodeWith("10.244.1.0/24")]]);
    await node.wait(700_000);
    await node.settle();
    assert.deepEqual(await served(), ["10.244.2.7", "fd00:244:2::7"]);
    await node.stop();
  });
}

for (const mode of ["ipvs", "iptables"]) {
  it(`a daemon in ${mode} mode that cannot list Nodes serves no new external IP, and keeps one that it served before a restart`, async () => {
    const node = new FakeNode({ "proxy-mode": mode, "iptables-min-sync-period": "0s" });
    let nodes: Nodes | Error = nodeRecords(cluster);
    const list = async (): Promise<Nodes> => {
      if (nodes instanceof Error) throw nodes;
      return nodes;
    };
    Object.assign(node.source, { listNodes: list });
    const apply = (name: string, address: string, clusterIp: string): void => {
      const spec = { externalIPs: [address] };
      const objects = [
        service({ name, clusterIps: [clusterIp], spec }),
        endpointSlice({ name: `${name}-a`, service: name }),
      ];
      node.source.apply(...(objects as unknown as NamedObject[]));
    };
    const served = async (): Promise<readonly boolean[]> => {
      const { ipvs = "", addresses = "", iptables: rules = "" } = await node.state();
      return ["203.0.113.5", "203.0.113.6"].map((address) => {
        if (mode === "iptables") return rules.includes(`-d ${address}/32`);
        assert.equal(ipvs.includes(address), addresses.includes(address));
        return addresses.includes(address);
      });
    };
    apply("web", "203.0.113.5", "10.96.0.10");
    await node.start();
    await node.settle();
    assert.deepEqual(await served(), [true, false]);
    await node.stop();
    nodes = new Error("nodes is forbidden");
    apply("later", "203.0.113.6", "10.96.0.11");
    await node.start();
    await node.wait(10_000);
    await node.settle();
    assert.deepEqual(await served(), [true, false]);
    assert.equal(node.figures()["conflicts other-node-address"] ?? 0, 0);
    assert.equal(node.figures()["conflicts nodes-not-listed"], 1);
    const destination = { protocol: "TCP", address: ip("203.0.113.6"), port: 80 } as const;
    const { conflicts } = await planFacts(node.modeView, { kind: "destination", destination });
    assert.match(conflicts[0]?.message ?? "", /^203\.0\.113\.6 is not served .* cannot be listed/);
    nodes = nodeRecords(cluster);
    await node.wait(60_000);
    await node.settle();
    assert.deepEqual(await served(), [true, true]);
    assert.equal(node.figures()["conflicts nodes-not-listed"], 0);
    await node.stop();
  });
}

for (const mode of ["ipvs", "iptables"]) {
  it(`a daemon in ${mode} mode whose first list of Nodes is slow serves no new load-balancer IP, and keeps those that it served before a restart`, async () => {
    const node = new FakeNode({ "proxy-mode": mode, "iptables-min-sync-period": "0s" });
    const listed = Promise.withResolvers<Nodes>();
    const list = [Promise.resolve(nodeRecords(cluster)), listed.promise].values();
    Object.assign(node.source, { listNodes: () => list.next().value });
    const ingress = (...addresses: readonly string[]) => ({
      loadBalancer: { ingress: addresses.map((address) => ({ ip: address })) },
    });
    const apply = (...addresses: readonly string[]): void => {
      const web = service({ name: "web", type: "LoadBalancer", status: ingress(...addresses) });
      node.source.apply(...([web, endpointSlice()] as unknown as NamedObject[]));
    };
    const served = async (): Promise<readonly string[]> => {
      const { ipvs = "", addresses = "", iptables: rules = "" } = await node.state();
      assert.equal(addresses.includes(other) || addresses.includes(own), false);
      return [own, other, "203.0.113.5", "203.0.113.6"].filter((address) =>
        mode === "ipvs" ? ipvs.includes(`${address}:80`) : rules.includes(`-d ${address}/32`),
      );
    };
    apply(own, "203.0.113.5");
    await node.start();
    await node.settle();
    assert.deepEqual(await served(), [own, "203.0.113.5"]);
    await node.stop();
    apply(own, other, "203.0.113.5", "203.0.113.6");
    await node.start();
    await node.wait(10_000);
    await node.settle();
    assert.deepEqual(await served(), [own, "203.0.113.5"]);
    listed.resolve(nodeRecords(cluster));
    await node.settle();
    assert.deepEqual(await served(), [own, "203.0.113.5", "203.0.113.6"]);
    await node.stop();
  });
}

describe("addresses of other Nodes", () => {
  it("are reserved before the first sync if a Service names one, except this node's own", async () => {
    const stage = new Stage();
    assert.equal(stage.others.isReady, false);
    await stage.listed(claiming(own, other, ip("203.0.113.5")));
    assert.deepEqual([stage.others.isReady, stage.reserved], [true, [other]]);
  });

  it("are not read while no Service has an external or load-balancer IP", async () => {
    const stage = new Stage();
    await stage.listed(serviceRecord());
    assert.equal(stage.others.isReady, true);
    await stage.clock.advance(3_600_000);
    assert.equal(stage.readings, 0);
  });

  it("are read within a second of the first Service that has one, after a random delay", async () => {
    const stage = new Stage();
    await stage.listed(serviceRecord());
    stage.others.noteService(undefined, serviceRecord({ loadBalancerIps: [second] }));
    await stage.clock.advance(499);
    assert.equal(stage.readings, 0);
    await stage.clock.advance(1);
    assert.deepEqual([stage.readings, stage.reserved], [1, [second]]);
  });

  it("are reserved immediately for a later Service, and released when no Service names them", async () => {
    const stage = new Stage();
    await stage.listed();
    const later = claiming(second);
    stage.others.noteService(undefined, later);
    assert.deepEqual(stage.reserved, [other, second]);
    const changes = stage.changes;
    stage.others.noteService(later, later);
    assert.equal(stage.changes, changes);
    stage.others.noteService(later, undefined);
    assert.deepEqual([stage.reserved, stage.changes], [[other], changes + 1]);
  });

  it("are read for a new external IP, which is unchecked until a list that was requested later", async () => {
    const stage = new Stage();
    await stage.listed();
    const [first, late] = [ip("203.0.113.5"), ip("203.0.113.6")];
    await stage.clock.advance(20_000);
    stage.others.noteService(undefined, claiming(first));
    assert.deepEqual(stage.unchecked, [first]);
    await stage.clock.advance(499);
    assert.deepEqual([stage.readings, stage.unchecked], [1, [first]]);
    stage.hold();
    await stage.clock.advance(1);
    // This claim is made after the request, so the list does not include it.
    stage.others.noteService(undefined, claiming(late));
    const changes = stage.changes;
    await stage.release();
    assert.deepEqual([stage.readings, stage.unchecked, stage.changes], [2, [late], changes]);
    await stage.clock.advance(10_000);
    assert.deepEqual([stage.readings, stage.unchecked], [3, []]);
  });

  it("are not waited for if the claim is to a load-balancer IP or a known Node's address, or is removed", async () => {
    const stage = new Stage();
    await stage.listed();
    stage.others.noteService(undefined, serviceRecord({ loadBalancerIps: [ip("203.0.113.5")] }));
    stage.others.noteService(undefined, claiming(second));
    assert.deepEqual(stage.unchecked, []);
    const gone = claiming(ip("203.0.113.6"));
    stage.others.noteService(undefined, gone);
    stage.others.noteService(gone, undefined);
    assert.deepEqual(stage.unchecked, []);
  });

  it("are waited for by the first load-balancer IP, but not by one that an earlier run served", async () => {
    const [first, servedBefore] = [ip("203.0.113.5"), ip("203.0.113.6")];
    const early = new Stage({ readServed: async () => [servedBefore] });
    early.hold();
    await early.listed(balancing(first, servedBefore));
    await early.clock.advance(4_999);
    assert.deepEqual(early.pendingBalancers, [first, servedBefore]);
    await early.clock.advance(1);
    assert.deepEqual([early.others.isReady, early.pendingBalancers], [true, [first]]);
    await early.release();
    assert.deepEqual(early.pendingBalancers, []);
    const late = new Stage();
    await late.listed(serviceRecord());
    late.others.noteService(undefined, balancing(first));
    assert.deepEqual(late.pendingBalancers, [first]);
    await late.clock.advance(500);
    assert.deepEqual(late.pendingBalancers, []);
  });

  it("are not waited for by load-balancer IPs if they cannot be listed within five seconds", async () => {
    let checks = 0;
    const onChecked = (): void => {
      checks += 1;
    };
    const stage = new Stage({ onChecked });
    stage.nodes = new Error("nodes is forbidden");
    await stage.listed(balancing(ip("203.0.113.5")));
    await stage.clock.advance(4_999);
    assert.equal(stage.pendingBalancers.length, 1);
    checks = 0;
    await stage.clock.advance(1);
    assert.deepEqual([stage.pendingBalancers, checks > 0], [[], true]);
    const late = new Stage({ onChecked });
    late.nodes = stage.nodes;
    await late.listed(serviceRecord());
    late.others.noteService(undefined, balancing(ip("203.0.113.5")));
    checks = 0;
    await late.clock.advance(500);
    assert.deepEqual([late.pendingBalancers, checks], [[], 1]);
  });

  it("are waited for by an external IP that is also a load-balancer IP", async () => {
    const stage = new Stage();
    await stage.listed(serviceRecord());
    stage.others.noteService(undefined, balancing(ip("203.0.113.5")));
    stage.others.noteService(undefined, claiming(ip("203.0.113.5")));
    assert.deepEqual(stage.unchecked, ["203.0.113.5"]);
  });

  it("are read within a second per Node after a new load-balancer IP, because a Node may have joined", async () => {
    const stage = new Stage();
    stage.nodes = manyNodes(20);
    await stage.listed();
    await stage.clock.advance(60_000);
    stage.nodes = new Map([...stage.nodes, ...nodeRecords({ joined: [second] })]);
    stage.others.noteService(undefined, balancing(second));
    await stage.clock.advance(9_999);
    assert.deepEqual([stage.readings, stage.reserved], [1, []]);
    await stage.clock.advance(1);
    assert.deepEqual([stage.readings, stage.reserved], [2, [second]]);
    // The next one is read when 21 seconds have passed since the last list.
    stage.others.noteService(undefined, balancing(ip("203.0.113.5")));
    await stage.clock.advance(20_999);
    assert.equal(stage.readings, 2);
    await stage.clock.advance(1);
    assert.equal(stage.readings, 3);
    await stage.clock.advance(600_000);
    assert.equal(stage.readings, 3);
  });

  it("are read for new claims at most once every 100 ms for each Node", async () => {
    const stage = new Stage();
    stage.nodes = manyNodes(1_000);
    await stage.listed();
    for (let second = 0; second < 300; second += 1) {
      stage.others.noteService(undefined, claiming(ip(`198.18.${second >> 8}.${second & 255}`)));
      await stage.clock.advance(1_000);
    }
    assert.equal(stage.readings, 1 + 3);
  });

  it("are requested again within a second after a failure, then less and less often", async () => {
    const stage = new Stage();
    stage.nodes = new Error("503");
    await stage.listed(claiming(ip("203.0.113.5")));
    assert.deepEqual([stage.readings, stage.others.isReady], [1, false]);
    await stage.clock.advance(1_000);
    assert.deepEqual([stage.readings, stage.others.isReady], [2, false]);
    await stage.clock.advance(60_000);
    const { readings } = stage;
    assert.ok(readings >= 6 && readings <= 8, String(readings));
    assert.deepEqual([stage.others.isReady, stage.unchecked], [true, [ip("203.0.113.5")]]);
    stage.nodes = nodeRecords(cluster);
    await stage.clock.advance(30_000);
    assert.deepEqual(stage.unchecked, []);
  });

  it("are read again after the period, or in a large cluster after a second per Node", async () => {
    const stage = new Stage();
    await stage.listed();
    await stage.clock.advance(629_000);
    assert.equal(stage.readings, 1);
    await stage.clock.advance(1_000);
    assert.equal(stage.readings, 2);
    stage.nodes = manyNodes(5_000);
    await stage.clock.advance(630_000);
    await stage.clock.advance(5_249_000);
    assert.equal(stage.readings, 3);
    await stage.clock.advance(1_000);
    assert.equal(stage.readings, 4);
  });

  it("remain reserved while their Node exists, regardless of its status", async () => {
    const stage = new Stage();
    await stage.listed(claiming(other, second));
    const names = (nodes: Readonly<Record<string, readonly IpAddress[]>>): readonly string[] => {
      stage.others.noteNodes(nodeRecords(nodes));
      return stage.reserved;
    };
    assert.deepEqual(names({ "node-1": [], "node-2": [second] }), [other, second]);
    assert.deepEqual(names({ "node-1": [], "node-2": [] }), [other, second]);
    assert.deepEqual(names({}), [other, second]);
    assert.deepEqual(names({ "node-1": [], "node-3": [other] }), [other]);
    assert.deepEqual(names({ "node-1": [] }), []);
  });

  it("remain reserved if they cannot be read, which is reported once with a remedy", async () => {
    const stage = new Stage();
    await stage.listed();
    stage.nodes = new Error("nodes is forbidden");
    await stage.clock.advance(2_000_000);
    assert.ok(stage.readings > 2);
    assert.deepEqual(stage.reserved, [other]);
    assert.deepEqual(
      stage.log.lines.map(({ event, keys }) => [event, keys["err"]]),
      [["Cannot list the addresses of other Nodes", "nodes is forbidden"]],
    );
  });

  it("are not read twice at the same time, however long a list takes", async () => {
    let readings = 0;
    const listNodes = (): Promise<Nodes> => {
      readings += 1;
      return new Promise(() => {});
    };
    const stage = new Stage({ source: { listNodes } });
    await stage.listed();
    await stage.clock.advance(5_000);
    assert.equal(stage.others.isReady, true);
    stage.others.noteNeeds();
    await stage.clock.advance(60_000);
    assert.equal(readings, 1);
    stage.others.stop();
  });

  it("delay the first sync for at most five seconds", async () => {
    const never = { listNodes: () => new Promise<Nodes>(() => {}) };
    const stage = new Stage({ source: never });
    await stage.listed();
    await stage.clock.advance(4_999);
    assert.equal(stage.others.isReady, false);
    await stage.clock.advance(1);
    assert.deepEqual([stage.others.isReady, stage.changes], [true, 1]);
  });

  it("are neither read nor reserved if the setting disables this", async () => {
    const stage = new Stage({ periodMs: 0 });
    await stage.listed();
    stage.others.noteNodes(nodeRecords(cluster));
    assert.deepEqual([stage.others.isReady, stage.readings, stage.reserved], [true, 0, []]);
  });

  it("are reported by a folder of manifests without a request", async () => {
    const stage = new Stage({ source: {} });
    await stage.listed();
    stage.others.noteNodes(nodeRecords(cluster));
    assert.deepEqual([stage.others.isReady, stage.reserved], [true, [other]]);
  });

  it("are not waited for after the program stops", async () => {
    const stage = new Stage();
    await stage.listed();
    stage.others.stop();
    assert.equal(stage.clock.pendingTimers, 0);
  });

  it("are read together with the weights of Nodes, and also while a Service needs only weights", async () => {
    let weights: Readonly<Record<string, number>> = { "node-2": 4 };
    let readings = 0;
    const stage = new Stage({
      source: {
        listNodes: async () => {
          readings += 1;
          return new Map(
            Object.entries(weights).map(([name, weight]) => [
              name,
              { addresses: [], podCidrs: [], weight },
            ]),
          );
        },
      },
    });
    const weighted = serviceRecord({ annotations: { "kube-ipvs.io/weights": "node" } });
    await stage.listed(weighted);
    assert.deepEqual([stage.others.isReady, readings], [true, 1]);
    assert.deepEqual([...stage.others.traits.weights], [["node-2", 4]]);
    const { changes } = stage;
    weights = { "node-2": 8 };
    await stage.clock.advance(700_000);
    assert.deepEqual([...stage.others.traits.weights], [["node-2", 8]]);
    assert.equal(stage.changes, changes + 1);
    stage.others.noteService(weighted, undefined);
    await stage.clock.advance(2_000_000);
    assert.equal(readings, 2, "nobody asks");
    stage.others.stop();
  });
});

describe("labels of Nodes", () => {
  const label = "example.com/rack";
  const preferring = serviceRecord({ annotations: { "kube-ipvs.io/prefer-topology": label } });
  const inRacks = (racks: Readonly<Record<string, string>>): Nodes =>
    new Map(
      Object.entries(racks).map(([name, rack]) => [
        name,
        { addresses: [], podCidrs: [], labels: { [label]: rack } },
      ]),
    );
  const sliceOn = (nodeName: string) => sliceRecord([endpointRecord("10.244.1.1", { nodeName })]);

  class LabelStage extends Stage {
    racks: Readonly<Record<string, string>> = { "node-1": "a", "node-2": "a", "node-3": "b" };
    readonly asked: (readonly string[])[] = [];

    constructor() {
      super({
        source: {
          listNodes: async (_signal, labels) => {
            this.asked.push([...labels]);
            return inRacks(this.racks);
          },
        },
      });
    }

    get near(): readonly string[] | undefined {
      const group = this.others.traits.groups.get(label);
      return group && [...group.nodeNames];
    }
  }

  it("are listed soon after a Service names one, even if Nodes were just listed", async () => {
    const stage = new LabelStage();
    await stage.listed();
    assert.deepEqual([stage.asked, stage.near], [[[]], undefined]);
    stage.others.noteService(undefined, preferring);
    assert.equal(stage.near, undefined, "the list does not contain the label");
    await stage.clock.advance(1_000);
    assert.deepEqual(
      [stage.asked, stage.near],
      [
        [[], [label]],
        ["node-1", "node-2"],
      ],
    );
    stage.others.noteService(preferring, undefined);
    assert.equal(stage.near, undefined);
    stage.others.stop();
  });

  it("follow this node's own object at once", async () => {
    const stage = new LabelStage();
    await stage.listed(preferring);
    assert.deepEqual(stage.near, ["node-1", "node-2"]);
    const own = { name: "node-1", addresses: [], podCidrs: [], isEligible: true };
    stage.others.noteOwn({ ...own, labels: { [label]: "b" } });
    assert.deepEqual(stage.near, ["node-1", "node-3"]);
    stage.others.noteOwn(own);
    assert.deepEqual(stage.near, []);
    stage.others.stop();
  });

  it("are listed again for an endpoint on an unknown Node, but only once per change", async () => {
    const stage = new LabelStage();
    await stage.listed(preferring);
    stage.others.noteSlice(sliceOn("node-2"));
    await stage.clock.advance(60_000);
    assert.equal(stage.asked.length, 1);
    stage.racks = { ...stage.racks, "node-4": "a" };
    stage.others.noteSlice(sliceOn("node-4"));
    await stage.clock.advance(1_000);
    assert.deepEqual([stage.asked.length, stage.near], [2, ["node-1", "node-2", "node-4"]]);
    stage.others.noteSlice(sliceOn("missing"));
    await stage.clock.advance(60_000);
    assert.equal(stage.asked.length, 3);
    stage.others.stop();
  });
});

describe("this node's own object", () => {
  const own = (weight?: number): NodeRecord => ({
    ...{ name: "node-1", addresses: [], podCidrs: [cidr("10.244.1.0/24")], isEligible: true },
    ...(weight === undefined ? {} : { weight }),
  });
  const listed: Nodes = new Map([
    ["node-1", own(5)],
    ["node-2", { ...own(3), name: "node-2" }],
  ]);

  it("supplies the current weight, even if it no longer has one", () => {
    const stage = new Stage();
    stage.others.noteNodes(listed);
    const before = stage.others.traits.weights;
    assert.deepEqual(Object.fromEntries(before), { "node-1": 5, "node-2": 3 });
    stage.others.noteOwn(own(5));
    assert.equal(stage.others.traits.weights, before, "the same while nothing differs");
    stage.others.noteOwn(own(7));
    assert.deepEqual(Object.fromEntries(stage.others.traits.weights), { "node-1": 7, "node-2": 3 });
    const { changes } = stage;
    stage.others.noteNodes(listed);
    stage.others.noteOwn(own(7));
    assert.equal(stage.changes, changes);
    stage.others.noteOwn(own());
    assert.deepEqual(Object.fromEntries(stage.others.traits.weights), { "node-2": 3 });
  });

  it("reserves its pods' addresses without a list unless the setting disables this", () => {
    for (const [periodMs, isReserved] of [
      [600_000, true],
      [0, false],
    ] as const) {
      const stage = new Stage({ periodMs });
      stage.others.noteOwn(own());
      assert.equal(stage.others.podNetworks.contains(ip("10.244.1.7")), isReserved);
    }
  });
});
