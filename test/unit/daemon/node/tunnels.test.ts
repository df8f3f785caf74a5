/** The links that receive tunneled packets exist only while everything that restricts these packets exists. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { errno } from "../../../../src/base/errno.ts";
import type { IpFamily } from "../../../../src/base/ip.ts";
import { silentLogger } from "../../../../src/base/log.ts";
import { Tunnels } from "../../../../src/daemon/node/tunnels.ts";
import { virtualServerKey } from "../../../../src/state/virtual-server.ts";
import type { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { Bench } from "../../../support/reconcile-bench.ts";
import { cidr, ip, localEndpoint, serviceRecord } from "../../../support/records.ts";

const web = serviceRecord({
  externalIps: [ip("203.0.113.10")],
  annotations: { "kube-ipvs.io/forwarding": "tunnel" },
});
const otherNode = ip("192.168.10.12");

/** The chains that restrict tunneled packets, and the chains that jump to them. Without one, packets pass. */
const restrictions = [
  { table: "filter", chain: "KUBE-IPVS-TUNNEL", lost: /-p 4 -j DROP/ },
  { table: "filter", chain: "KUBE-IPVS-TUNNEL", lost: /-m addrtype ! --dst-type LOCAL -j DROP/ },
  { table: "filter", chain: "INPUT", lost: /-j KUBE-IPVS-TUNNEL/ },
  { table: "filter", chain: "KUBE-IPVS-TUNNEL-FWD", lost: /-i kube-ipvs-ipip -j DROP/ },
  { table: "filter", chain: "FORWARD", lost: /-j KUBE-IPVS-TUNNEL-FWD/ },
  { table: "mangle", chain: "KUBE-IPVS-TUNNEL", lost: /-j DROP/ },
  { table: "mangle", chain: "PREROUTING", lost: /-j KUBE-IPVS-TUNNEL/ },
] as const;

class TunnelNode {
  readonly bench: Bench = new Bench(undefined, { portRangeMarks: 0x3fff0000, tunnels: {} });
  readonly #links = new Set<IpFamily>();
  readonly #tunnels: Tunnels;
  /** Number of requests that concern links. */
  requests = 0;
  /** Restrictions that did not exist when a link was created. */
  readonly missing: string[] = [];
  canRemove = true;

  constructor() {
    const { bench } = this;
    this.#tunnels = new Tunnels({
      links: {
        ensure: async (family) => {
          this.requests += 1;
          if (!this.#links.has(family)) this.missing.push(...missingIn(bench.kernel));
          this.#links.add(family);
        },
        remove: async (family) => {
          this.requests += 1;
          if (!this.canRemove) throw new Error("EPERM");
          this.#links.delete(family);
        },
        listOthers: async () => [],
      },
      families: ["IPv4", "IPv6"],
      desired: bench.desired,
      canExist: (subject) =>
        bench.reconciler.canExist(subject, { desired: bench.desired, rules: bench.rules() }),
      log: silentLogger,
    });
    bench.put(web, [localEndpoint("10.244.1.5")]);
    bench.desired.noteTunnelNodes("IPv4", [otherNode]);
  }

  get links(): readonly IpFamily[] {
    return [...this.#links];
  }

  async sync(): Promise<void> {
    await this.#tunnels.removeUnneeded();
    if (!this.bench.reconciler.needsObservation) await this.bench.checkRules();
    await this.bench.sync();
    await this.#tunnels.serve();
  }
}

function missingIn({ iptables }: FakeKernel): readonly string[] {
  const chains = iptables.peek("IPv4");
  return restrictions
    .filter(({ table, chain, lost }) => {
      const found = chains.find((one) => one.table === table && one.name === chain);
      return found?.rules.some(({ text }) => lost.test(text)) !== true;
    })
    .map(({ table, chain, lost }) => `${table} ${chain} ${lost.source}`);
}

describe("the link that receives tunneled packets", () => {
  for (const { table, chain, lost } of restrictions) {
    it(`does not exist without ${lost.source} in ${table} ${chain}`, async () => {
      const node = new TunnelNode();
      await node.sync();
      assert.deepEqual(node.links, ["IPv4"]);
      const { kernel, clock } = node.bench;
      kernel.iptables.table("IPv4", table).remove(chain, lost);
      assert.equal(missingIn(kernel).length, 1);
      const endFault = kernel.operations.failWhere(
        ({ facility, isRead }) => facility === "iptables" && isRead !== true,
        errno.EPERM,
      );
      await node.sync();
      assert.deepEqual(node.links, []);
      endFault();
      await clock.advance(700_000);
      await node.sync();
      assert.deepEqual(node.links, ["IPv4"]);
      assert.deepEqual(node.missing, []);
    });
  }

  it("is not created before its restrictions, whichever change of the first sync fails", async () => {
    for (let nth = 1; ; nth += 1) {
      const node = new TunnelNode();
      const { operations } = node.bench.kernel;
      operations.failNth(nth, errno.EPERM);
      await node.sync();
      assert.deepEqual(node.missing, [], `change ${nth}`);
      const isUnaffected = operations.log.length < nth;
      await node.bench.clock.advance(700_000);
      await node.sync();
      assert.deepEqual(node.links, ["IPv4"], `change ${nth}`);
      assert.deepEqual(node.missing, [], `change ${nth}`);
      if (isUnaffected) break;
    }
  });

  it("has no virtual servers while source ranges cannot be applied", async () => {
    const node = new TunnelNode();
    const balancer = {
      ...web,
      type: "LoadBalancer",
      loadBalancerIps: [ip("203.0.113.11")],
    } as const;
    const sourceRanges = [cidr("198.51.100.0/24")];
    const { bench } = node;
    const marked = (): readonly string[] =>
      bench.kernel.ipvs
        .peek()
        .filter(({ virtualServer: { protocol } }) => protocol === "FWM")
        .map(({ virtualServer }) => virtualServerKey(virtualServer));
    const endpoints = [localEndpoint("10.244.1.5")];
    bench.put({ ...balancer, externalIps: [] }, endpoints);
    await node.sync();
    const before = marked();
    assert.equal(before.length, 2);
    const endFault = bench.kernel.operations.failWhere(
      ({ action, subject }) =>
        action === "entry-add" && subject.startsWith("KUBE-LOAD-BALANCER-FW "),
      errno.EINVAL,
    );
    bench.put({ ...balancer, externalIps: [], sourceRanges }, endpoints);
    await node.sync();
    assert.deepEqual(marked(), []);
    endFault();
    await bench.clock.advance(700_000);
    await node.sync();
    assert.deepEqual(marked(), before);
  });

  it("does not exist if no other Node is known", async () => {
    const node = new TunnelNode();
    await node.sync();
    node.bench.desired.noteTunnelNodes("IPv4", []);
    await node.sync();
    assert.deepEqual(node.links, []);
  });

  it("does not delay Services if it cannot be removed, and is removed later", async () => {
    const node = new TunnelNode();
    await node.sync();
    node.canRemove = false;
    node.bench.drop(web.name);
    await node.sync();
    assert.deepEqual(node.links, ["IPv4"]);
    assert.deepEqual(node.bench.kernel.ipvs.peek(), []);
    assert.deepEqual(missingIn(node.bench.kernel), []);
    node.canRemove = true;
    await node.sync();
    assert.deepEqual(node.links, []);
  });

  it("is removed before a sync removes the last tunnel, and causes no further requests", async () => {
    const node = new TunnelNode();
    await node.sync();
    node.bench.drop(web.name);
    node.bench.kernel.operations.onChanged = () => assert.deepEqual(node.links, []);
    await node.sync();
    assert.deepEqual(node.links, []);
    const { requests } = node;
    await node.sync();
    assert.equal(node.requests, requests);
  });
});
