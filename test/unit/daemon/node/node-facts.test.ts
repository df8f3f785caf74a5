import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { NodeRecord } from "../../../../src/api/objects.ts";
import type { IpFamily } from "../../../../src/base/ip.ts";
import {
  healthCheckAddresses,
  type NodeFacts,
  planOptionsOf,
} from "../../../../src/daemon/node/node-facts.ts";
import { emptyNetwork } from "../../../../src/daemon/node/node-network.ts";
import { readAddresses } from "../../../../src/reconcile/observed/read-addresses.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { cidr, ip } from "../../../support/records.ts";
import { loadFile } from "../../config/loading.ts";

const node: NodeRecord = {
  name: "node-1",
  addresses: [ip("192.168.10.11"), ip("fd00:10::11")],
  podCidrs: [cidr("10.244.1.0/24"), cidr("fd00:244:1::/64")],
  zone: "z1",
  isEligible: true,
};

/** Facts with both families, the node's addresses, and one more address on another link. */
function factsOf(lines: string, overrides: Partial<NodeFacts> = {}): NodeFacts {
  return {
    config: loadFile(lines).config,
    families: ["IPv4", "IPv6"],
    node,
    network: {
      ...emptyNetwork,
      ofNode: new Set(["192.168.10.11", "172.16.5.11", "fd00:10::11"].map(ip)),
    },
    ...overrides,
  };
}

function nodePortAddresses(facts: NodeFacts): Readonly<Record<IpFamily, readonly string[]>> {
  const { families } = planOptionsOf(facts);
  const of = (family: IpFamily): readonly string[] => families.get(family)?.nodePortAddresses ?? [];
  return { IPv4: of("IPv4"), IPv6: of("IPv6") };
}

describe("node ports are served", () => {
  const cases: readonly {
    readonly name: string;
    readonly networks: string;
    readonly IPv4: readonly string[];
    readonly IPv6: readonly string[];
  }[] = [
    {
      name: "on every node address without a setting",
      networks: "[]",
      IPv4: ["172.16.5.11", "192.168.10.11"],
      IPv6: ["fd00:10::11"],
    },
    {
      name: "inside networks of both families",
      networks: '["172.16.5.0/24", "fd00:99::/64"]',
      IPv4: ["172.16.5.11"],
      IPv6: [],
    },
    {
      name: "everywhere with a zero network of the family",
      networks: '["172.16.5.0/24", "0.0.0.0/0"]',
      IPv4: ["172.16.5.11", "192.168.10.11"],
      IPv6: ["fd00:10::11"],
    },
    {
      name: "everywhere in a family if only networks of the other family are set",
      networks: '["172.16.5.0/24"]',
      IPv4: ["172.16.5.11"],
      IPv6: ["fd00:10::11"],
    },
    {
      name: "on the Node object's addresses with the keyword primary",
      networks: "[primary]",
      IPv4: ["192.168.10.11"],
      IPv6: ["fd00:10::11"],
    },
  ];
  for (const { name, networks, IPv4, IPv6 } of cases) {
    it(name, () => {
      const facts = factsOf(`nodePortAddresses: ${networks}`);
      assert.deepEqual(nodePortAddresses(facts), { IPv4, IPv6 });
    });
  }

  it("everywhere with the keyword primary while the Node object is unknown, as in kube-proxy", () => {
    const facts = factsOf("nodePortAddresses: [primary]", { node: undefined });
    assert.deepEqual(nodePortAddresses(facts), {
      IPv4: ["172.16.5.11", "192.168.10.11"],
      IPv6: ["fd00:10::11"],
    });
  });

  it("never on kube-ipvs0, even if a network contains its addresses", async () => {
    const kernel = new FakeKernel();
    await kernel.link.ensure();
    await kernel.link.apply([{ kind: "address-add", address: ip("10.96.0.10") }]);
    const { ofNode } = await readAddresses(kernel);
    const facts = factsOf('nodePortAddresses: ["10.96.0.0/12", "192.168.10.0/24"]', {
      network: { ...emptyNetwork, ofNode },
    });
    assert.deepEqual(nodePortAddresses(facts).IPv4, ["192.168.10.11"]);
  });

  it("never on kube-ipvs0 if it is created or removed while addresses are read", async () => {
    const kernel = new FakeKernel();
    const address = ip("10.96.0.10");
    const list = kernel.link.listAddresses.bind(kernel.link);
    kernel.link.listAddresses = async () => {
      await kernel.link.ensure();
      await kernel.link.apply([{ kind: "address-add", address }]);
      return list();
    };
    const come = await readAddresses(kernel);
    kernel.link.listAddresses = async () => {
      const found = await list();
      kernel.link.lose();
      return found;
    };
    const gone = await readAddresses(kernel);
    assert.deepEqual([come.bound, gone.bound], [[address], undefined]);
    for (const { ofNode } of [come, gone]) assert.ok(!ofNode.has(address));
  });
});

describe("health-check node ports listen", () => {
  const listening = (lines: string): unknown =>
    Object.fromEntries(healthCheckAddresses(factsOf(lines)));

  it("on all addresses without networks", () => {
    assert.deepEqual(listening(""), { IPv4: ["0.0.0.0"], IPv6: ["::"] });
  });

  it("on the addresses that serve node ports with networks", () => {
    assert.deepEqual(listening('nodePortAddresses: ["172.16.5.0/24"]'), {
      IPv4: ["172.16.5.11"],
      IPv6: ["::"],
    });
  });
});

describe("traffic of the node's pods is detected", () => {
  const source = (text: string): unknown => ({ kind: "source", cidr: text });
  const from = (name: string): unknown => ({ kind: "in-interface", name });
  const cases: readonly {
    readonly lines: string;
    readonly IPv4: unknown;
    readonly IPv6: unknown;
  }[] = [
    {
      lines: "clusterCIDR: 10.244.0.0/16,fd00:244::/32",
      IPv4: source("10.244.0.0/16"),
      IPv6: source("fd00:244::/32"),
    },
    { lines: "clusterCIDR: 10.244.0.0/16", IPv4: source("10.244.0.0/16"), IPv6: undefined },
    { lines: "clusterCIDR: ''", IPv4: undefined, IPv6: undefined },
    {
      lines: "detectLocalMode: NodeCIDR",
      IPv4: source("10.244.1.0/24"),
      IPv6: source("fd00:244:1::/64"),
    },
    {
      lines: "detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: cni0}",
      IPv4: from("cni0"),
      IPv6: from("cni0"),
    },
    {
      lines: "detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: veth}",
      IPv4: from("veth+"),
      IPv6: from("veth+"),
    },
  ];
  for (const { lines, IPv4, IPv6 } of cases) {
    it(`with ${lines.replaceAll("\n", ", ")}`, () => {
      const { families } = planOptionsOf(factsOf(lines));
      assert.deepEqual(families.get("IPv4")?.localDetector, IPv4);
      assert.deepEqual(families.get("IPv6")?.localDetector, IPv6);
    });
  }
});

describe("the node's own address", () => {
  const cases: readonly (readonly [lines: string, IPv4: string, IPv6: string])[] = [
    ["bindAddress: 0.0.0.0", "192.168.10.11", "fd00:10::11"],
    ["bindAddress: 172.16.5.11", "172.16.5.11", "fd00:10::11"],
    ["bindAddress: fd00:10::99", "192.168.10.11", "fd00:10::99"],
  ];
  for (const [lines, IPv4, IPv6] of cases) {
    it(`is ${IPv4} and ${IPv6} with ${lines}`, () => {
      const { families } = planOptionsOf(factsOf(lines));
      assert.deepEqual([families.get("IPv4")?.nodeIp, families.get("IPv6")?.nodeIp], [IPv4, IPv6]);
    });
  }

  it("is the first of the Node object in each family, and loopback without one", () => {
    const ipsOf = (overrides: Partial<NodeFacts>): readonly unknown[] =>
      [...planOptionsOf(factsOf("mode: ipvs", overrides)).families.values()].map(
        ({ nodeIp }) => nodeIp,
      );
    const addresses = ["192.168.10.12", "192.168.10.11"].map(ip);
    assert.deepEqual(ipsOf({ node: { ...node, addresses } }), ["192.168.10.12", "::1"]);
    assert.deepEqual(ipsOf({ node: undefined }), ["127.0.0.1", "::1"]);
  });
});
