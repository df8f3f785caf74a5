import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PlanFacts } from "../../../src/answer/answers.ts";
import type { Explanation } from "../../../src/answer/explanation.ts";
import { adviceOn } from "../../../src/answer/explanation-advice.ts";
import { type ExplainQuestion, explainQuestion } from "../../../src/cli/explain-question.ts";
import { unansweredIn } from "../../../src/explain/read/read-connections.ts";
import { ip } from "../../support/records.ts";
import { type CommandRun, runCommand } from "../../support/run-command.ts";

/** Returns the query for `svc/web` and the options after it. */
function asked(subject: string | undefined, options: object = {}): ExplainQuestion {
  const given = { to: "", from: "", namespace: "default", ...options };
  return explainQuestion({
    options: new Map(Object.entries(given)),
    arguments: subject === undefined ? [] : [subject],
  });
}

const explanation: Explanation = {
  ...{
    protocol: "TCP",
    address: "10.96.0.10",
    port: 80,
    mode: "ipvs",
    verdict: "balanced",
    losers: [],
    conflicts: [],
  },
  summary: "Packets from 10.244.1.7 to 10.96.0.10:80 are balanced over 1 of 1 endpoint",
  service: {
    ...{ namespace: "default", name: "web", frontend: "cluster-ip" },
    ...{ trafficPolicy: "Cluster", affinitySeconds: 0 },
  },
  sourceRanges: [],
  endpoints: [],
  packets: [
    {
      ...{ from: "10.244.1.7", source: "10.244.1.7", verdict: "balanced", summary: "" },
      losses: [],
      path: [
        {
          ...{ hook: "PREROUTING", table: "nat", chain: "KUBE-SERVICES", isPlanned: false },
          rule: '-m comment --comment "a \\"b\\" c" -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT',
          entry: "10.96.0.10,tcp:80",
        },
      ],
      deliveries: [],
    },
  ],
  differences: [{ kind: "missing", subject: "real server 10.244.1.5:8080 of TCP 10.96.0.10:80" }],
  connections: {
    templates: [
      { client: "10.244.1.7", realServer: "10.244.1.5:8080", state: "NONE", expiresInSeconds: 12 },
    ],
    ...{ ipvs: [], conntrack: [], isTruncated: false },
  },
};

const facts: PlanFacts = {
  ...{
    apiVersion: "kube-ipvs/v1",
    kind: "PlanFacts",
    mode: "ipvs",
    families: ["IPv4"],
    iptablesBackend: "nft",
  },
  destinations: [{ protocol: "TCP", address: ip("10.96.0.10"), port: 80 }],
  ...{
    isTruncated: false,
    conflicts: [],
    forwards: [],
    services: [],
    virtualServers: [],
    rules: {},
    setEntries: {},
  },
  ...{ boundAddresses: [], listeners: [] },
};

function run(
  args: readonly string[],
  format: string,
  found: PlanFacts = facts,
  explanations: readonly Explanation[] = [explanation],
): Promise<CommandRun> {
  const socket = "--kube-ipvs-operator-socket=/nonexistent/name.sock";
  return runCommand(["explain", ...args, "-o", format, socket], {
    firstSync: { answerWithoutDaemon: async () => JSON.stringify(found) },
    explain: { explain: async () => explanations },
  });
}

describe("the arguments of explain", () => {
  for (const [text, destination] of [
    ["10.96.0.10:80", { protocol: "TCP", address: "10.96.0.10", port: 80 }],
    ["10.96.0.10:53/udp", { protocol: "UDP", address: "10.96.0.10", port: 53 }],
    ["[fd00:96::a]:80/SCTP", { protocol: "SCTP", address: "fd00:96::a", port: 80 }],
    ["10.96.0.10/icmp", { protocol: "ICMP", address: "10.96.0.10", port: 0 }],
    ["fd00:96::a/icmp", { protocol: "ICMP", address: "fd00:96::a", port: 0 }],
  ] as const) {
    it(`are ${text}`, () => {
      const query = { kind: "destination", destination };
      assert.deepEqual(asked(text), { query });
      const from = "10.244.1.7";
      assert.deepEqual(asked(undefined, { to: text, from }), {
        query: { ...query, from },
        from,
      });
    });
  }

  it("can be a Service", () => {
    const query = { kind: "service", namespace: "shop", name: "web" };
    const namespace = "shop";
    assert.deepEqual(asked("svc/web", { namespace }), { query });
    for (const text of ["shop/web", "svc/shop/web"]) assert.deepEqual(asked(text), { query });
    assert.deepEqual(asked("web", { namespace }), { query });
    for (const port of ["http", "80"]) assert.deepEqual(asked(`shop/web:${port}`), { query, port });
    assert.deepEqual(asked("svc/web", { namespace, from: "node" }), { query, from: "node" });
  });

  const mistakes: readonly (readonly [string | undefined, object, RegExp])[] = [
    [undefined, {}, /give NAMESPACE\/NAME, ADDRESS:PORT, or/],
    ["10.96.0.10:80", { to: "10.96.0.10:80" }, /either .* or --to, not both/],
    ["web.shop", {}, /"web\.shop": must be NAME, NAMESPACE\/NAME/],
    ["fd00::1:80", {}, /must be NAME/],
    ["10.96.0.10:0", {}, /must be NAME/],
    ["10.96.0.10:80/http", {}, /must be NAME/],
    ["10.96.0.10:80", { from: "pod" }, /--from "pod": must be an IP address, or node/],
  ];
  for (const [subject, options, problem] of mistakes) {
    it(`are a mistake: ${subject} ${JSON.stringify(options)}`, () => {
      assert.throws(() => asked(subject, options), problem);
    });
  }
});

describe("explain", () => {
  it("prints the verdict first, then the packet's path, and says if no daemon is running", async () => {
    const { code, out, err } = await run(["10.96.0.10:80"], "text");
    assert.equal(code, 2);
    assert.match(
      err,
      /No kube-ipvs daemon on this node answers .*; planning as the daemon would at startup\n$/,
    );
    assert.equal(
      out,
      [
        "Packets from 10.244.1.7 to 10.96.0.10:80 are balanced over 1 of 1 endpoint",
        "",
        "Service         default/web, cluster-ip, traffic policy Cluster",
        "Virtual server  none",
        "",
        "From 10.244.1.7",
        "  PLACE              PLANNED  ENTRY              RULE",
        "  nat KUBE-SERVICES  no       10.96.0.10,tcp:80  -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT",
        "",
        "Kernel and plan",
        "  missing: real server 10.244.1.5:8080 of TCP 10.96.0.10:80",
        "",
        "Connections",
        "  affinity: 10.244.1.7 keeps 10.244.1.5:8080 for 12 s more",
        "",
        "What to do",
        ...adviceOn(explanation).map((text) => `  ${text}`),
        "",
      ].join("\n"),
    );
  });

  it("prints only verdicts and differences with -o short", async () => {
    const [packet] = explanation.packets;
    assert.ok(packet !== undefined);
    const planned = "Packets from this node to 10.96.0.10:80 are refused";
    const other = { ...explanation, packets: [packet, { ...packet, planned }] };
    const { out } = await run(["10.96.0.10:80"], "short", facts, [explanation, other]);
    assert.equal(
      out,
      [
        explanation.summary,
        explanation.summary,
        `  planned: ${planned}`,
        "",
        "Kernel and plan",
        "  missing: real server 10.244.1.5:8080 of TCP 10.96.0.10:80",
        "",
      ].join("\n"),
    );
  });

  it("prints everything for scripts", async () => {
    const { out } = await run(["10.96.0.10:80"], "json");
    assert.deepEqual(JSON.parse(out), {
      ...{
        apiVersion: "kube-ipvs/v1",
        kind: "ExplanationList",
        items: [{ ...explanation, advice: adviceOn(explanation) }],
      },
    });
    assert.match((await run(["10.96.0.10:80"], "yaml")).out, /^kind: ExplanationList$/m);
  });

  it("reports that a Service has nothing to explain", async () => {
    const { code, err } = await run(["svc/none"], "text", { ...facts, destinations: [] });
    assert.equal(code, 1);
    assert.match(err, /No address of Service .*none is served/);
  });

  it("exits with 0 if the kernel is as planned and the Service has an endpoint", async () => {
    for (const ready of [true, false]) {
      const endpoints = [{ address: "10.244.1.5", port: 8080, ready, serving: ready }];
      const asPlanned = { ...explanation, differences: [], endpoints };
      const { code } = await run(["svc/web"], "short", facts, [asPlanned]);
      assert.equal(code, ready ? 0 : 2);
    }
  });
});

describe("connections that an endpoint does not answer", () => {
  it("are counted after two seconds, and cause advice to be printed", () => {
    const virtualServer = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;
    const connection = (state: string, expiresInSeconds: number, host: string) => ({
      ...{ client: ip("10.244.1.7"), clientPort: 40_000, virtualServer, state, expiresInSeconds },
      realServer: { address: ip(host), port: 8080 },
    });
    const counted = unansweredIn([
      connection("SYN_RECV", 58, "10.244.1.5"),
      connection("SYN_RECV", 40, "10.244.1.5"),
      connection("SYN_RECV", 59, "10.244.1.6"),
      connection("ESTABLISHED", 10, "10.244.1.6"),
    ]);
    assert.deepEqual(counted, {
      unanswered: [{ realServer: "10.244.1.5:8080", connections: 2 }],
    });
    assert.deepEqual(unansweredIn([]), {});
    const connections = { ...explanation.connections, ...counted };
    const advice = adviceOn({ ...explanation, connections }).join("\n");
    assert.match(
      advice,
      /Unanswered new connections: 2 .*10\.244\.1\.5:8080 does not answer: check/,
    );
  });
});
