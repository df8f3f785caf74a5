/**
 * Tests settings that extend kube-proxy's behavior. Without the setting, nothing changes. test/packet-paths/edges.ts
 * tests them with packets.
 */

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseCidr } from "../../../src/base/ip.ts";
import { renderRule } from "../../../src/kernel/iptables/render.ts";
import type { EdgeOptions } from "../../../src/plan/options.ts";
import { planRules } from "../../../src/plan/rules.ts";
import { RulesMemory } from "../../../src/plan/rules-memory.ts";
import { setRoles } from "../../../src/plan/sets.ts";
import { planService } from "../../support/plan-at-once.ts";
import {
  endpointRecord,
  familyOptions,
  ip,
  planOptions,
  portRecord,
  serviceRecord,
  sliceRecord,
} from "../../support/records.ts";

/** Behaves like kube-proxy. */
const noEdges: EdgeOptions = {
  answerPing: false,
  masqueradeNodeToLocal: false,
  strictSourceRanges: false,
};

const deniedToNode = [{ protocol: "TCP", address: ip("203.0.113.10"), port: 80 }] as const;

function rulesInput(edges?: EdgeOptions): Parameters<typeof planRules>[0] {
  return {
    family: "IPv4",
    filledSets: new Set(setRoles),
    deniedToNode,
    localDetector: undefined,
    masqueradeAll: false,
    masqueradeMark: 0x4000,
    edges,
  };
}

/** Rules that exist only in the plan with these settings. */
function added(edges: Partial<EdgeOptions>): readonly string[] {
  const texts = (options?: EdgeOptions): readonly string[] =>
    planRules(rulesInput(options)).chains.flatMap(({ name, rules }) =>
      rules.map((rule) => `${name} ${renderRule("IPv4", rule)}`),
    );
  const before = texts();
  assert.deepEqual(texts(noEdges), before);
  return texts({ ...noEdges, ...edges })
    .filter((text) => !before.includes(text))
    .map((text) => text.replace(/-m comment --comment "[^"]*" /, ""));
}

describe("rules", () => {
  it("accept echo requests, before the rules that reject them", () => {
    assert.deepEqual(added({ answerPing: true }), [
      "KUBE-IPVS-FILTER -p icmp -m icmp --icmp-type 8 -m set --match-set KUBE-IPVS-IPS dst -j RETURN",
    ]);
    const chain = planRules(rulesInput({ ...noEdges, answerPing: true })).chains.find(
      ({ name }) => name === "KUBE-IPVS-FILTER",
    );
    assert.deepEqual(
      chain?.rules.slice(-2).map(({ target }) => target.kind),
      ["return", "reject"],
    );
  });

  it("masquerade the node's own connections if the policy is Local", () => {
    const sets = ["KUBE-EXTERNAL-IP-LOCAL", "KUBE-LOAD-BALANCER-LOCAL"];
    assert.deepEqual(
      added({ masqueradeNodeToLocal: true }),
      ["KUBE-SERVICES", "KUBE-LOAD-BALANCER"].map(
        (chain, index) =>
          `${chain} -m set --match-set ${sets[index]} dst,dst -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ`,
      ),
    );
  });

  it("exclude the node, whichever of its addresses it connects from", () => {
    assert.deepEqual(added({ strictSourceRanges: true }), [
      "KUBE-IPVS-OUT-FILTER -m addrtype --src-type LOCAL -m ipvs --vproto 6 --vaddr 203.0.113.10 --vport 80 -j DROP",
    ]);
  });

  it("are planned again when a setting changes", () => {
    const memory = new RulesMemory();
    const plain = memory.plan(rulesInput(noEdges));
    assert.equal(memory.plan(rulesInput({ ...noEdges })), plain);
    assert.notEqual(memory.plan(rulesInput({ ...noEdges, answerPing: true })), plain);
  });
});

describe("strict source ranges", () => {
  const range = parseCidr("198.51.100.0/24");
  assert.ok(range !== undefined);
  const service = serviceRecord({
    type: "LoadBalancer",
    ports: [portRecord({ nodePort: 30_080 })],
    loadBalancerIps: [ip("203.0.113.10")],
    sourceRanges: [range],
  });

  /** Entries of the firewall sets, and addresses that the node must not use. */
  function firewall(edges: EdgeOptions): readonly string[] {
    const families = new Map([["IPv4" as const, familyOptions("IPv4", { edges })]]);
    const slices = [sliceRecord([endpointRecord("10.244.2.11")])];
    const [plan] = planService(service.name, service, slices, planOptions({ families }));
    const [port] = plan?.servicePorts ?? [];
    return [
      ...(port?.setEntries ?? [])
        .filter(({ set }) => /-FW$|SOURCE-CIDR$/.test(set.name))
        .map(({ set, entry }) => `${set.name} ${entry}`),
      ...(port?.deniedToNode ?? []).map(
        ({ address, port: number }) => `denied ${address}:${number}`,
      ),
    ];
  }

  const ofVirtualIp = [
    "KUBE-LOAD-BALANCER-FW 203.0.113.10,tcp:80",
    "KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.10,tcp:80,198.51.100.0/24",
  ];

  it("also apply to node ports", () => {
    assert.deepEqual(firewall(noEdges), [...ofVirtualIp, "denied 203.0.113.10:80"]);
    assert.deepEqual(firewall({ ...noEdges, strictSourceRanges: true }), [
      ...ofVirtualIp,
      "KUBE-LOAD-BALANCER-FW 192.168.10.11,tcp:30080",
      "KUBE-LOAD-BALANCER-SOURCE-CIDR 192.168.10.11,tcp:30080,198.51.100.0/24",
      "denied 203.0.113.10:80",
      "denied 192.168.10.11:30080",
    ]);
  });
});
