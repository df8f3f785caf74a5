import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { EndpointRecord, ServiceRecord } from "../../../src/api/objects.ts";
import { familyOf } from "../../../src/base/ip.ts";
import { parseRule } from "../../../src/kernel/iptables/parse-rule.ts";
import { renderRule } from "../../../src/kernel/iptables/render.ts";
import { encodeRule } from "../../../src/kernel/nftables/encode-rule.ts";
import { DesiredState } from "../../../src/plan/desired-state.ts";
import type { FamilyOptions, PlanOptions } from "../../../src/plan/options.ts";
import { rangeMark } from "../../../src/plan/port-ranges.ts";
import { planRules } from "../../../src/plan/rules.ts";
import { noTuningFacts } from "../../../src/plan/tuning-facts.ts";
import type { Tunnel } from "../../../src/state/served-range.ts";
import { markServerId, toServerKey, virtualServerKey } from "../../../src/state/virtual-server.ts";
import { planService } from "../../support/plan-at-once.ts";
import {
  cidr,
  endpointRecord,
  familyOptions,
  ip,
  localEndpoint,
  planOptions,
  portRecord,
  serviceRecord,
  sliceRecord,
} from "../../support/records.ts";

const portRangeMarks = 0x3fff0000;
const external = ip("203.0.113.10");
const nodeAddresses = new Map([
  ["node-2", [ip("fd00:10::12"), ip("192.168.10.12")]],
  ["node-3", [ip("192.168.10.13")]],
]);
const facts = { ...noTuningFacts, nodeAddresses };
const enabled: PlanOptions = planOptions({ portRangeMarks, tunnels: {} });

function web(overrides: Partial<ServiceRecord> = {}): ServiceRecord {
  return serviceRecord({
    externalIps: [external],
    annotations: { "kube-ipvs.io/forwarding": "tunnel" },
    ...overrides,
  });
}

function onNode(address: string, nodeName: string): EndpointRecord {
  return endpointRecord(address, { nodeName });
}

const remote = [
  onNode("10.244.2.5", "node-2"),
  onNode("10.244.2.6", "node-2"),
  onNode("10.244.3.5", "node-3"),
];
const all = [...remote, localEndpoint("10.244.1.5")];

function planned(
  endpoints: readonly EndpointRecord[],
  service: ServiceRecord = web(),
  options: PlanOptions = enabled,
  addresses: typeof facts.nodeAddresses = nodeAddresses,
): DesiredState {
  const desired = new DesiredState();
  const known = { ...facts, nodeAddresses: addresses };
  for (const plan of planService(service.name, service, [sliceRecord(endpoints)], options, known))
    desired.replace(plan.service, plan.family, plan.servicePorts);
  return desired;
}

function serverOf(desired: DesiredState, end: Tunnel["end"]): readonly string[] {
  const range = desired.tunnels("IPv4").find(({ tunnel }) => tunnel?.end === end);
  assert.ok(range !== undefined, `a virtual server for ${end}`);
  const server = desired.virtualServer(virtualServerKey(markServerId("IPv4", range.mark)));
  return (server?.realServers ?? []).map(
    ({ address, port, weight, forwardingMethod: method }) =>
      `${address}:${port} weight ${weight} method ${method}`,
  );
}

/** The marks of `out` and `in`. */
function marksOf(desired: DesiredState): readonly string[] {
  return (["out", "in"] as const).map((end) => {
    const range = desired.tunnels("IPv4").find(({ tunnel }) => tunnel?.end === end);
    return `0x${range?.mark.toString(16)}`;
  });
}

function withFamily(overrides: Partial<FamilyOptions>): PlanOptions {
  const families = new Map([["IPv4", familyOptions("IPv4", overrides)]] as const);
  return { ...enabled, families };
}

function rulesOf(desired: DesiredState): readonly string[] {
  desired.noteTunnelNodes(
    "IPv4",
    [...nodeAddresses.values()].flat().filter((address) => familyOf(address) === "IPv4"),
  );
  const { chains } = planRules({
    ...{ family: "IPv4", portRangeMarks, isTunnelingEnabled: true, masqueradeAll: false },
    ...{ masqueradeMark: 0x4000, deniedToNode: [], ranges: [] },
    filledSets: desired.filledSets("IPv4"),
    localDetector: { kind: "source", cidr: "10.244.0.0/16" },
    tunnels: desired.tunnels("IPv4"),
    tunnelsWithoutMark: desired.tunnelsWithoutMark("IPv4"),
  });
  return chains
    .filter(({ name }) => /^KUBE-IPVS-(?:TUNNEL|RANGES)/.test(name))
    .flatMap(({ table, rules }) =>
      rules.map((rule) => {
        const text = renderRule("IPv4", rule);
        assert.equal(renderRule("IPv4", parseRule(text) ?? rule), text);
        assert.ok(encodeRule("IPv4", table, rule).length > 0);
        return `${table} ${text}`;
      }),
    );
}

describe("tunnel forwarding", () => {
  it("replaces endpoints on other nodes by their nodes, with the sum of the weights", () => {
    assert.deepEqual(serverOf(planned(all), "out"), [
      "10.244.1.5:8080 weight 1 method 0",
      "192.168.10.12:0 weight 2 method 2",
      "192.168.10.13:0 weight 1 method 2",
    ]);
  });

  it("sends packets from other nodes only to this node's endpoints", () => {
    assert.deepEqual(serverOf(planned(all), "in"), ["10.244.1.5:8080 weight 1 method 0"]);
    assert.deepEqual(serverOf(planned(remote), "in"), []);
  });

  it("uses this node's terminating endpoints for other nodes only if none is ready", () => {
    const leaving = localEndpoint("10.244.1.6", { isReady: false, isTerminating: true });
    assert.deepEqual(serverOf(planned([...remote, leaving]), "in"), [
      "10.244.1.6:8080 weight 1 method 0",
    ]);
    assert.deepEqual(serverOf(planned([...all, leaving]), "in"), [
      "10.244.1.5:8080 weight 1 method 0",
    ]);
  });

  it("keeps endpoints whose node has no known address", () => {
    const servers = serverOf(planned([...remote, onNode("10.244.9.5", "node-9")]), "out");
    assert.ok(servers.includes("10.244.9.5:8080 weight 1 method 0"), servers.join("\n"));
  });

  it("keeps the proportions of weights whose sum is too large", () => {
    const service = web({
      annotations: {
        "kube-ipvs.io/forwarding": "tunnel",
        "kube-ipvs.io/scheduler": "wrr",
        "kube-ipvs.io/weights": "slice",
      },
    });
    const desired = new DesiredState();
    const slices = [sliceRecord(remote, { weightText: "60000" })];
    for (const plan of planService(service.name, service, slices, enabled, facts))
      desired.replace(plan.service, plan.family, plan.servicePorts);
    assert.deepEqual(serverOf(desired, "out"), [
      "192.168.10.12:0 weight 65535 method 2",
      "192.168.10.13:0 weight 32768 method 2",
    ]);
  });

  it("keeps endpoints of an earlier Node that had this node's address, because the kernel would deliver the packets here", () => {
    const earlier = new Map([...nodeAddresses, ["node-0", [ip("192.168.10.11")]]]);
    const desired = planned([...remote, onNode("10.244.9.5", "node-0")], web(), enabled, earlier);
    const servers = serverOf(desired, "out");
    assert.ok(servers.includes("10.244.9.5:8080 weight 1 method 0"), servers.join("\n"));
  });

  it("leaves the ordinary virtual servers unchanged", () => {
    const without = planned(all, web({ annotations: {} }));
    const keys = [...without.virtualServerKeys()];
    const desired = planned(all);
    for (const key of keys) {
      assert.deepEqual(desired.virtualServer(key), without.virtualServer(key), key);
    }
    assert.equal([...desired.virtualServerKeys()].length, keys.length + 2);
  });

  it("replaces session affinity by a hash of the client's address", () => {
    const desired = planned(all, web({ affinitySeconds: 600 }));
    const marks = desired.tunnels("IPv4").map(({ mark }) => toServerKey(`FWM ${mark} IPv4`));
    assert.equal(marks.length, 2);
    for (const key of marks) {
      const server = desired.virtualServer(key)?.virtualServer;
      assert.equal(server?.persistenceTimeoutSeconds, 0);
      assert.equal(server?.scheduler, "mh");
      assert.equal(server?.flags, 0x8);
    }
  });

  it("marks packets from clients, and packets from other nodes if it has endpoints", () => {
    const desired = planned(all);
    const [out, into] = marksOf(desired);
    const to = "-p tcp -m tcp --dport 80";
    assert.deepEqual(
      rulesOf(desired).filter((text) => text.startsWith("mangle") && !text.includes("--match-set")),
      [
        `mangle -d 203.0.113.10/32 -i kube-ipvs-ipip ${to} -j MARK --set-xmark ${into}/0xffffffff`,
        "mangle -i kube-ipvs-ipip -m mark --mark 0x0/0x3fff0000 -j DROP",
        "mangle -i kube-ipvs-ipip -j RETURN",
        "mangle -s 10.244.0.0/16 -j RETURN",
        `mangle -d 203.0.113.10/32 ${to} -j MARK --set-xmark ${out}/0xffffffff`,
      ],
    );
    assert.ok(
      rulesOf(planned(remote)).includes(
        `mangle -d 203.0.113.10/32 -i kube-ipvs-ipip ${to} -j RETURN`,
      ),
    );
    assert.ok(!rulesOf(planned([])).some((text) => text.includes("MARK")));
  });

  it("masquerades only packets to endpoints on other nodes that no tunnel reaches", () => {
    const rules = rulesOf(planned(all)).filter((text) => text.startsWith("nat"));
    assert.equal(rules.length, 4);
    assert.match(rules[0] ?? "", /--match-set KUBE-LOOP-BACK dst,dst,dst -j RETURN$/);
    assert.match(rules[1] ?? "", /^nat -p tcp -m mark --mark 0x\w+ -j MASQUERADE --random-fully$/);
  });

  it("accepts tunneled packets only from other Nodes, and forwards none", () => {
    const rules = rulesOf(planned(all)).filter((text) => text.startsWith("filter"));
    assert.deepEqual(rules, [
      "filter -p 4 -m set --match-set KUBE-IPVS-NODES src -j RETURN",
      "filter -p 4 -j DROP",
      "filter -i kube-ipvs-ipip -m set --match-set KUBE-IPVS-NODES dst -j RETURN",
      "filter -i kube-ipvs-ipip -m addrtype ! --dst-type LOCAL -j DROP",
      "filter -i kube-ipvs-ipip -j DROP",
      "filter -p 4 -m set --match-set KUBE-IPVS-NODES dst -j DROP",
    ]);
  });

  const nodePort = 30_080;
  const atNodePort = web({
    ...{ type: "NodePort", externalIps: [], ports: [portRecord({ nodePort })] },
  });

  it("serves the node port of its own address, and that of all other Nodes' addresses", () => {
    const otherAddress = { nodePortAddresses: [ip("192.168.10.11"), ip("172.16.5.11")] };
    const desired = planned(all, atNodePort, withFamily(otherAddress));
    assert.deepEqual(serverOf(desired, "out"), serverOf(planned(all), "out"));
    assert.deepEqual(serverOf(desired, "in"), ["10.244.1.5:8080 weight 1 method 0"]);
    const [out, into] = marksOf(desired);
    const to = `-p tcp -m tcp --dport ${nodePort}`;
    const isOfNodes = "-m set --match-set KUBE-IPVS-NODES";
    assert.deepEqual(
      rulesOf(desired).filter((text) => text.startsWith("mangle")),
      [
        `mangle -i kube-ipvs-ipip ${to} ${isOfNodes} dst -j MARK --set-xmark ${into}/0xffffffff`,
        "mangle -i kube-ipvs-ipip -m mark --mark 0x0/0x3fff0000 -j DROP",
        "mangle -i kube-ipvs-ipip -j RETURN",
        "mangle -s 10.244.0.0/16 -j RETURN",
        `mangle ${isOfNodes} src -j RETURN`,
        `mangle -d 192.168.10.11/32 ${to} -j MARK --set-xmark ${out}/0xffffffff`,
      ],
    );
  });

  it("has the same marks for a node port on every node, because the other nodes cannot see that a mark is taken", () => {
    const marks = ["192.168.10.11", "192.168.10.21"].map((address) => {
      const own = { nodeIp: ip(address), nodePortAddresses: [ip(address)] };
      return marksOf(planned(all, atNodePort, withFamily(own)));
    });
    assert.deepEqual(marks[0], marks[1]);
  });

  it("delivers tunneled packets without a mark if another Service has the mark", () => {
    const addresses = Array.from({ length: 20_000 }, (_, index) =>
      ip(`198.${18 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`),
    );
    const [into] = planned(all)
      .tunnels("IPv4")
      .filter(({ tunnel }) => tunnel?.end === "in");
    const taken = addresses.find((one) => rangeMark(one, portRangeMarks) === into?.mark);
    assert.ok(taken !== undefined);
    const ranged = web({
      name: "other/ranged" as ServiceRecord["name"],
      ...{ clusterIps: [taken], externalIps: [] },
      annotations: { "kube-ipvs.io/port-range": "10000-20000" },
    });
    const desired = planned(all);
    for (const plan of planService(ranged.name, ranged, [], enabled, facts))
      desired.replace(plan.service, plan.family, plan.servicePorts);
    assert.ok(
      rulesOf(desired).includes(
        "mangle -d 203.0.113.10/32 -i kube-ipvs-ipip -p tcp -m tcp --dport 80 -j RETURN",
      ),
      rulesOf(desired).join("\n"),
    );
    assert.ok(!rulesOf(desired).some((text) => text.includes("MARK")), "and tunnels none");
  });

  it("serves other Nodes' node ports by all endpoints if none is local, because no ordinary virtual server does", () => {
    const desired = planned(remote, atNodePort);
    assert.deepEqual(
      serverOf(desired, "in"),
      remote.map(({ address }) => `${address}:8080 weight 1 method 0`),
    );
    const [, into] = marksOf(planned([], atNodePort));
    const marking = rulesOf(planned([], atNodePort)).filter((text) => text.includes("xmark"));
    assert.equal(marking.length, 1);
    assert.ok(marking[0]?.includes(`${into}/`), "rejected by IPVS instead of a process");
  });

  it("marks packets to other Nodes' node ports only from the source ranges if they are strict", () => {
    const sourceRanges = [cidr("198.51.100.0/24"), cidr("203.0.113.0/28")];
    const restricted = { ...atNodePort, type: "LoadBalancer", sourceRanges } as const;
    const edges = { answerPing: false, masqueradeNodeToLocal: false, strictSourceRanges: true };
    const marking = rulesOf(planned(all, restricted, withFamily({ edges }))).filter(
      (text) => text.startsWith("mangle") && text.includes("-i kube-ipvs-ipip -p"),
    );
    assert.deepEqual(
      marking.map((text) => text.split(" -i")[0]),
      ["mangle -s 198.51.100.0/24", "mangle -s 203.0.113.0/28"],
    );
  });

  it("does not serve node ports with policy Local through tunnels", () => {
    const local = { ...atNodePort, isExternalPolicyLocal: true };
    assert.deepEqual(planned(all, local).tunnels("IPv4"), []);
  });

  it("reports why the annotation has no effect", () => {
    const problemsOf = (
      service: ServiceRecord,
      options: PlanOptions,
    ): readonly (string | undefined)[] => {
      const [plan] = planService(service.name, service, [sliceRecord(all)], options, facts);
      return (plan?.annotationProblems ?? []).map(({ reason, message }) => `${reason}: ${message}`);
    };
    assert.deepEqual(problemsOf(web(), enabled), []);
    assert.deepEqual(problemsOf(web(), planOptions({ portRangeMarks })), [
      "annotation-without-effect: kubeIpvs.tunnelForwarding is off",
    ]);
    const local = web({ type: "LoadBalancer", isExternalPolicyLocal: true });
    assert.match(problemsOf(local, enabled)[0] ?? "", /externalTrafficPolicy is Local/);
    assert.deepEqual(planned(all, local).tunnels("IPv4"), []);
    const wrong = web({ annotations: { "kube-ipvs.io/forwarding": "dsr" } });
    assert.match(problemsOf(wrong, enabled)[0] ?? "", /^invalid-annotation: must be masquerade or/);
    const blocked = planOptions({ portRangeMarks, tunnels: { problem: "link tunl0 is up" } });
    assert.match(problemsOf(web(), blocked)[0] ?? "", /link tunl0 is up$/);
    assert.deepEqual(planned(all, web(), blocked).tunnels("IPv4"), []);
  });
});
