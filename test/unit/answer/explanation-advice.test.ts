import assert from "node:assert/strict";
import { it } from "node:test";
import type { Explanation, PacketExplanation } from "../../../src/answer/explanation.ts";
import { adviceOn } from "../../../src/answer/explanation-advice.ts";

const ready = { address: "10.244.1.10", port: 8080, ready: true, serving: true };
const step = { hook: "prerouting", table: "nat", chain: "PREROUTING", rule: "-j DNAT" };
const packet: PacketExplanation = {
  ...{ from: "elsewhere", source: "192.0.2.1", summary: "" },
  verdict: "balanced",
  ...{ losses: [], path: [{ ...step, isPlanned: false }], deliveries: [] },
};
const sound: Explanation = {
  ...{ mode: "ipvs", protocol: "TCP", address: "10.96.0.10", port: 80, verdict: "balanced" },
  ...{ summary: "", losers: [], conflicts: [], sourceRanges: [], differences: [] },
  service: {
    ...{ namespace: "shop", name: "web", frontend: "cluster-ip", trafficPolicy: "Cluster" },
    affinitySeconds: 0,
  },
  endpoints: [ready],
  packets: [packet],
  connections: { templates: [], ipvs: [], conntrack: [], isTruncated: false },
  probes: [{ endpoint: "10.244.1.10:8080", milliseconds: 1 }],
};
const connection = (answeredBy: string): Explanation["connections"] => ({
  ...sound.connections,
  conntrack: [{ client: "192.0.2.1:5300", answeredBy }],
});

const cases: readonly (readonly [string, Partial<Explanation>, RegExp])[] = [
  [
    "a difference",
    { differences: [{ kind: "missing", subject: "chain nat KUBE-SERVICES" }] },
    /^A third party changed .* The next verification .* repairs it/,
  ],
  [
    "a third-party rule that changes the outcome",
    { packets: [{ ...packet, planned: "Packets are balanced" }] },
    /^Remove the other software's rule: nat PREROUTING -j DNAT$/,
  ],
  [
    "a missing route, not on the connections that nobody answers because of it",
    {
      packets: [{ ...packet, losses: [{ cause: "are lost: ip route get", isCertain: true }] }],
      connections: {
        ...sound.connections,
        unanswered: [{ realServer: "10.244.1.10:8080", connections: 2 }],
      },
    },
    /^Correct the route, /,
  ],
  [
    "a Service without a ready endpoint",
    { endpoints: [{ ...ready, ready: false, serving: false }] },
    /^Service shop\/web has no ready endpoint: .*endpointslices -l kubernetes.io\/service-name=web$/,
  ],
  [
    "a port where nothing listens",
    { probes: [{ endpoint: "10.244.1.10:8080", error: "ECONNREFUSED" }] },
    /^Nothing is listening on 10\.244\.1\.10:8080: .*targetPort/,
  ],
  [
    "an endpoint that does not answer",
    { probes: [{ endpoint: "[fd00::1]:8080", error: "no answer within 2 s" }] },
    /^\[fd00::1\]:8080 does not answer: .*\(ip route get fd00::1; /,
  ],
  [
    "a stale conntrack entry",
    { protocol: "UDP", connections: connection("10.244.1.77:8080") },
    /^A conntrack entry sends datagrams from 192\.0\.2\.1:5300 to 10\.244\.1\.77:8080, .*conntrack -D -p udp --orig-dst 10\.96\.0\.10$/,
  ],
];

for (const [what, changed, advice] of cases) {
  it(`gives one piece of advice on ${what}`, () => {
    const [first = "", ...more] = adviceOn({ ...sound, ...changed });
    assert.match(first, advice);
    assert.deepEqual(more, []);
  });
}

it("gives none if nothing is wrong", () => {
  assert.deepEqual(adviceOn(sound), []);
  const used = { protocol: "UDP", connections: connection("10.244.1.10:8080") };
  assert.deepEqual(adviceOn({ ...sound, ...used }), []);
});
