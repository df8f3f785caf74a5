import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceRecord } from "../../../src/api/objects.ts";
import { parsePortRanges } from "../../../src/base/port-range.ts";
import { finish } from "../../../src/base/time-slice.ts";
import { parseRule } from "../../../src/kernel/iptables/parse-rule.ts";
import { renderRule } from "../../../src/kernel/iptables/render.ts";
import { encodeRule } from "../../../src/kernel/nftables/encode-rule.ts";
import { encodeRuleText } from "../../../src/kernel/nftables/rule-user-data.ts";
import { ClusterPlan } from "../../../src/plan/cluster-plan.ts";
import { DesiredState } from "../../../src/plan/desired-state.ts";
import type { PlanOptions } from "../../../src/plan/options.ts";
import { rangeMark } from "../../../src/plan/port-ranges.ts";
import { planRules } from "../../../src/plan/rules.ts";
import { toServerKey } from "../../../src/state/virtual-server.ts";
import { planService } from "../../support/plan-at-once.ts";
import { ipvsText } from "../../support/plan-text.ts";
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
const mark = rangeMark(external, portRangeMarks);

function voice(overrides: Partial<ServiceRecord> = {}): ServiceRecord {
  return serviceRecord({
    annotations: { "kube-ipvs.io/port-range": "5060,10000-20000" },
    ports: [
      portRecord({ name: "sip", port: 5060, protocol: "UDP" }),
      portRecord({ name: "web", port: 80 }),
    ],
    ...overrides,
  });
}

const slices = [
  sliceRecord([endpointRecord("10.244.1.5"), localEndpoint("10.244.1.6")], {
    ports: [
      { name: "sip", protocol: "UDP", port: 5060 },
      { name: "web", protocol: "TCP", port: 8080 },
    ],
  }),
];

function planned(
  services: readonly ServiceRecord[],
  options: PlanOptions = planOptions({ portRangeMarks }),
): DesiredState {
  const desired = new DesiredState();
  for (const service of services) {
    for (const plan of planService(service.name, service, slices, options)) {
      desired.replace(plan.service, plan.family, plan.servicePorts);
    }
  }
  return desired;
}

function rulesOf(
  desired: DesiredState,
  input: Partial<Parameters<typeof planRules>[0]> = {},
): readonly string[] {
  const { chains } = planRules({
    family: "IPv4",
    filledSets: desired.filledSets("IPv4"),
    deniedToNode: desired.deniedToNode("IPv4"),
    localDetector: undefined,
    masqueradeAll: false,
    masqueradeMark: 0x4000,
    portRangeMarks,
    ranges: desired.ranges("IPv4"),
    ...input,
  });
  return chains
    .filter(({ name }) => name === "KUBE-IPVS-RANGES")
    .flatMap(({ table, rules }) =>
      rules.map((rule) => {
        const text = renderRule("IPv4", rule);
        assert.equal(renderRule("IPv4", parseRule(text) ?? rule), text);
        assert.ok(encodeRule("IPv4", table, rule).length > 0);
        assert.ok(encodeRuleText("IPv4", rule).length > 0);
        return `${table} ${text}`;
      }),
    );
}

const hex = (number: number): string => `0x${number.toString(16)}`;

describe("a port range", () => {
  it("has one virtual server for all its ports and protocols at each bound address", () => {
    const desired = planned([voice({ externalIps: [external] })]);
    const texts = ipvsText(desired).filter((text) => text.includes("FWM"));
    const keys = [...desired.virtualServerKeys()].filter((key) => key.startsWith("FWM"));
    assert.equal(keys.length, 2, texts.join("\n"));
    const server = desired.virtualServer(toServerKey(`FWM ${mark} IPv4`));
    assert.deepEqual(server?.realServers.map(({ address, port }) => `${address}:${port}`).sort(), [
      "10.244.1.5:0",
      "10.244.1.6:0",
    ]);
  });

  it("replaces the Service's own ports within the range, whose addresses stay bound", () => {
    const desired = planned([voice({ externalIps: [external] })]);
    const keys = [...desired.virtualServerKeys()];
    assert.equal(keys.includes(toServerKey("UDP 203.0.113.10:5060")), false);
    assert.equal(keys.includes(toServerKey("TCP 203.0.113.10:80")), true);
    assert.equal(desired.hasAddress(external), true);
    assert.ok(desired.serversOfAddress(external).includes(toServerKey(`FWM ${mark} IPv4`)));
  });

  it("marks packets in mangle after the single ports, and masquerades by mark", () => {
    const set = `-j MARK --set-xmark ${hex(mark)}/0xffffffff`;
    const rules = rulesOf(planned([voice({ externalIps: [external] })]));
    const about = rules.filter(
      (text) => text.includes("203.0.113.10") || text.includes(`--mark ${hex(mark)} `),
    );
    assert.deepEqual(about, [
      `mangle -d 203.0.113.10/32 -p tcp -m tcp --dport 5060 ${set}`,
      `mangle -d 203.0.113.10/32 -p tcp -m tcp --dport 10000:20000 ${set}`,
      `mangle -d 203.0.113.10/32 -p udp -m udp --dport 5060 ${set}`,
      `mangle -d 203.0.113.10/32 -p udp -m udp --dport 10000:20000 ${set}`,
      `nat -m mark --mark ${hex(mark)} -j MASQUERADE --random-fully`,
    ]);
    assert.match(rules[0] ?? "", /^mangle -m set .* -j RETURN$/);
  });

  it("drops packets that source ranges do not admit", () => {
    const service = voice({
      type: "LoadBalancer",
      loadBalancerIps: [external],
      sourceRanges: [cidr("198.51.100.0/24")],
      annotations: { "kube-ipvs.io/port-range": "10000-20000" },
      ports: [portRecord({ port: 80 })],
    });
    const to = "-d 203.0.113.10/32 -p tcp -m tcp --dport 10000:20000";
    assert.deepEqual(
      rulesOf(planned([service])).filter((text) => text.includes("-d 203.0.113.10")),
      [
        `mangle -s 198.51.100.0/24 ${to} -j MARK --set-xmark ${hex(mark)}/0xffffffff`,
        `mangle ${to} -m mark ! --mark ${hex(mark)} -j DROP`,
      ],
    );
  });

  it("masquerades cluster IPs by the source, and local endpoints that reach themselves", () => {
    const service = voice();
    const clusterMark = hex(rangeMark(service.clusterIps[0] ?? external, portRangeMarks));
    const nat = (input: Parameters<typeof rulesOf>[1]): readonly string[] =>
      rulesOf(planned([service]), input).filter((text) => text.startsWith("nat"));
    const itself = `nat -s 10.244.1.6/32 -d 10.244.1.6/32 -m mark --mark ${clusterMark} -j MASQUERADE --random-fully`;
    assert.deepEqual(nat({ localDetector: { kind: "source", cidr: "10.244.0.0/16" } }), [
      itself,
      `nat ! -s 10.244.0.0/16 -m mark --mark ${clusterMark} -j MASQUERADE --random-fully`,
    ]);
    assert.deepEqual(nat({ masqueradeAll: true }), [
      `nat -m mark --mark ${clusterMark} -j MASQUERADE --random-fully`,
    ]);
  });

  it("is not served at an address of the node, where it would capture traffic to local processes", () => {
    const options = planOptions({
      portRangeMarks,
      families: new Map([["IPv4", familyOptions("IPv4", { nodeAddresses: new Set([external]) })]]),
    });
    const desired = planned([voice({ externalIps: [external] })], options);
    assert.equal(desired.virtualServer(toServerKey(`FWM ${mark} IPv4`)), undefined);
    assert.notEqual(desired.virtualServer(toServerKey("UDP 203.0.113.10:5060")), undefined);
  });

  it("belongs to one of the Services that request the address, which is reported for the other Service", () => {
    const [one, other] = ["a", "b"].map((name) =>
      voice({
        ...serviceRecord({}),
        name: `default/${name}` as ServiceRecord["name"],
        externalIps: [external],
        annotations: { "kube-ipvs.io/port-range": "10000-20000" },
      }),
    ) as [ServiceRecord, ServiceRecord];
    const lost = planned([one, other]).claims.lost();
    assert.deepEqual(
      lost
        .filter(({ virtualServer }) => virtualServer.includes("203.0.113.10:10000"))
        .map(({ virtualServer, winner, loser }) => [virtualServer, winner, loser]),
      [["TCP 203.0.113.10:10000-20000", "default/a:http", "default/b:http"]],
    );
  });

  it("does not serve a Service's own ports while another Service has the mark, so they are served as usual", () => {
    const [one, other] = ["a", "b"].map((name, index) => {
      const port = 5060 + index;
      return voice({
        name: `default/${name}` as ServiceRecord["name"],
        ...{ clusterIps: [ip(`10.96.0.1${index}`)], externalIps: [external] },
        annotations: { "kube-ipvs.io/port-range": `${port},${(index + 1) * 10_000}-${port * 4}` },
        ports: [portRecord({ name: "sip", port, protocol: "UDP" })],
      });
    }) as [ServiceRecord, ServiceRecord];
    const portsOf = (plan: ClusterPlan): readonly string[] =>
      ["UDP 203.0.113.10:5060", "UDP 203.0.113.10:5061"].filter(
        (key) => plan.desired.virtualServer(toServerKey(key)) !== undefined,
      );
    for (const order of [
      [one, other],
      [other, one],
    ]) {
      const plan = new ClusterPlan({ startedAtMs: 0, onPlan() {} });
      for (const service of order) plan.tracker.noteService(undefined, service);
      const update = (): unknown => finish(plan.update(planOptions({ portRangeMarks })));
      update();
      assert.deepEqual(portsOf(plan), ["UDP 203.0.113.10:5061"]);
      assert.equal(plan.desired.entryCount("KUBE-EXTERNAL-IP"), 1);
      plan.tracker.noteService(one, undefined);
      update();
      assert.deepEqual(portsOf(plan), []);
      assert.equal(plan.desired.entryCount("KUBE-EXTERNAL-IP"), 0);
      assert.equal(plan.desired.ranges("IPv4").length, 2);
    }
  });

  it("is served at the first of a Service's addresses with the same mark, and the others have the Service's own ports", () => {
    const [first, second] = [ip("203.0.114.39"), ip("203.0.114.109")];
    const shared = toServerKey(`FWM ${rangeMark(first, portRangeMarks)} IPv4`);
    assert.equal(rangeMark(first, portRangeMarks), rangeMark(second, portRangeMarks));
    const servedAt = (...externalIps: ServiceRecord["externalIps"]): readonly string[] => {
      const desired = planned([voice({ externalIps })]);
      const keys = [...desired.virtualServerKeys()].filter((key) => key.includes("203.0.114."));
      return [desired.virtualServer(shared)?.range?.address ?? "nowhere", ...keys.sort()];
    };
    assert.deepEqual(servedAt(first, second), [
      first,
      ...[`TCP ${second}:80`, `TCP ${first}:80`, `UDP ${second}:5060`],
    ]);
    assert.deepEqual(servedAt(second), [second, `TCP ${second}:80`]);
  });

  it("has the source ranges of a load-balancer IP that is also an external IP", () => {
    const service = voice({
      ...{ type: "LoadBalancer", externalIps: [external], loadBalancerIps: [external] },
      sourceRanges: [cidr("198.51.100.0/24")],
    });
    const range = planned([service]).virtualServer(toServerKey(`FWM ${mark} IPv4`))?.range;
    assert.deepEqual(range?.sources, ["198.51.100.0/24"]);
  });

  it("lets no Service with a weaker claim take the Service's own ports within the range", () => {
    const [clusterIp = external] = voice().clusterIps;
    const thief = voice({
      name: "other/thief" as ServiceRecord["name"],
      clusterIps: [ip("10.96.0.99")],
      externalIps: [clusterIp],
      annotations: {},
    });
    const key = toServerKey(`UDP ${clusterIp}:5060`);
    for (const services of [
      [voice(), thief],
      [thief, voice()],
    ]) {
      const desired = planned(services);
      assert.equal(desired.virtualServer(key), undefined);
      assert.equal([...desired.virtualServerKeys()].includes(key), false);
      assert.deepEqual([...desired.entries("KUBE-EXTERNAL-IP")], []);
      const [lost] = desired.claims.lost().filter(({ virtualServer }) => virtualServer === key);
      assert.equal(lost?.winner, "default/a:sip");
    }
    const stronger = { ...thief, externalIps: [], loadBalancerIps: [external] };
    const desired = planned([voice({ externalIps: [external] }), stronger]);
    const winner = desired.claimantOf(toServerKey("UDP 203.0.113.10:5060"));
    assert.equal(winner, "other/thief:sip");
  });

  it("is ignored and reported without kubeIpvs.portRangeMarks, or if it is invalid", () => {
    const [plan] = planService(voice().name, voice(), slices, planOptions());
    assert.deepEqual(
      plan?.annotationProblems.map(({ reason, message }) => [reason, message]),
      [["annotation-without-effect", "kubeIpvs.portRangeMarks is not set"]],
    );
    for (const text of ["", "0", "5-4", "1-65536", "1-10,5", "a", "1,,2"])
      assert.equal(parsePortRanges(text), undefined, text);
    assert.deepEqual(parsePortRanges("10-20, 5"), [
      { first: 5, last: 5 },
      { first: 10, last: 20 },
    ]);
  });

  it("has marks within the mask only", () => {
    for (const mask of [0xff, 0x3fff0000, 0xff000000]) {
      for (let at = 0; at < 300; at += 1) {
        const found = rangeMark(ip(`10.0.${at % 256}.1`), mask);
        assert.ok(found > 0);
        assert.equal((found & ~mask) >>> 0, 0);
      }
    }
  });
});
