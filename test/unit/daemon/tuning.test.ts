/** Tests the kernel effects of annotations, and the reports about ignored annotations. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { type IpAddress, parseIpAddress } from "../../../src/base/ip.ts";
import type { NamedObject } from "../../support/memory-source.ts";
import {
  type ApiObject,
  endpoint,
  endpointSlice,
  node as nodeObject,
  service,
  servicePort,
} from "../../support/objects.ts";
import { TunedNode } from "../../support/tuned-node.ts";

const other = [
  service({ name: "other", clusterIps: ["10.96.0.20"] }),
  endpointSlice({ service: "other", endpoints: ["10.244.1.30"] }),
];
const endpoints = endpointSlice({ endpoints: ["10.244.1.10", "10.244.1.20"] });

function web(annotations: Readonly<Record<string, unknown>> = {}): ApiObject {
  return service({ metadata: { annotations } });
}

let node: TunedNode;

beforeEach(() => {
  node = new TunedNode();
});
afterEach(() => node.stop());

const plain = [
  "-A -t 10.96.0.10:80 -s rr",
  "-A -t 10.96.0.20:80 -s rr",
  "-a -t 10.96.0.10:80 -r 10.244.1.10:8080 -m -w 1",
  "-a -t 10.96.0.10:80 -r 10.244.1.20:8080 -m -w 1",
  "-a -t 10.96.0.20:80 -r 10.244.1.30:8080 -m -w 1",
];

describe("the scheduler annotation", () => {
  it("changes this Service's virtual server, and its removal restores the default", async () => {
    await node.start([...other, web(), endpoints]);
    assert.deepEqual(node.servers, plain);
    const annotations = {
      "kube-ipvs.io/scheduler": "sh",
      "kube-ipvs.io/scheduler-flags": "sh-port,sh-fallback",
    };
    const edit = ["ipvs virtual-server-update TCP 10.96.0.10:80"];
    assert.deepEqual(await node.apply(web(annotations)), edit);
    assert.equal(node.servers[0], "-A -t 10.96.0.10:80 -s sh -b sh-fallback,sh-port");
    assert.deepEqual(await node.apply(web()), edit);
    assert.deepEqual(node.servers, plain);
    assert.deepEqual(node.warnings, []);
  });

  it("is replaced by the default and reported if the kernel lacks the scheduler, and applies once the module is loaded", async () => {
    node.kernel.ipvs.schedulers.delete("mh");
    await node.start([...other, web({ "kube-ipvs.io/scheduler": "mh" }), endpoints]);
    assert.deepEqual(node.servers, plain);
    assert.deepEqual(node.warnings, [
      {
        level: "warn",
        event: "Ignoring annotation",
        keys: {
          service: "default/web",
          annotation: "kube-ipvs.io/scheduler",
          value: "mh",
          reason: "scheduler-unavailable",
          message:
            "the scheduler mh is not available in the kernel: run modprobe ip_vs_mh on the node",
        },
      },
    ]);
    node.kernel.ipvs.schedulers.add("mh");
    assert.deepEqual(await node.pass(301_000), ["ipvs virtual-server-update TCP 10.96.0.10:80"]);
    assert.equal(node.servers[0], "-A -t 10.96.0.10:80 -s mh -b mh-port");
    assert.equal(node.ignored.get("scheduler-unavailable"), 0);
  });

  it("has defaults for all Services", async () => {
    const flags = { "ipvs-scheduler": "mh", "kube-ipvs-scheduler-flags": "mh-fallback,sh-port" };
    await node.start([...other, web({ "kube-ipvs.io/scheduler": "sh" }), endpoints], flags);
    assert.deepEqual(node.servers.slice(0, 2), [
      "-A -t 10.96.0.10:80 -s sh -b sh-port",
      "-A -t 10.96.0.20:80 -s mh -b mh-fallback",
    ]);
  });
});

describe("an ignored annotation", () => {
  it("is reported once in the log, as an Event and in a metric, and the default applies", async () => {
    const bad = web({ "kube-ipvs.io/scheduler": "round\nrobin", "kube-ipvs.io/schedular": "wrr" });
    await node.start([...other, bad, endpoints]);
    assert.deepEqual(node.servers, plain);
    const named = node.warnings.map(({ keys }) => `${keys["annotation"]} ${keys["reason"]}`);
    assert.deepEqual(named, [
      "kube-ipvs.io/schedular unknown-annotation",
      "kube-ipvs.io/scheduler invalid-annotation",
    ]);
    assert.deepEqual(
      node.events.filter(({ reason }) => reason === "IgnoredAnnotation").map(({ note }) => note),
      [
        'node node-1 ignores kube-ipvs.io/schedular: "wrr" (unknown-annotation): ' +
          node.warnings[0]?.keys["message"],
        'node node-1 ignores kube-ipvs.io/scheduler: "round\\u000arobin" (invalid-annotation): ' +
          "must be the name of an IPVS scheduler, such as wrr",
      ],
    );
    assert.equal(node.ignored.get("invalid-annotation"), 1);
    await node.apply(bad, endpointSlice({ endpoints: ["10.244.1.10"] }));
    assert.equal(node.warnings.length, 2);
    await node.apply(web());
    assert.equal(node.ignored.get("invalid-annotation"), 0);
    await node.apply(bad);
    assert.equal(node.warnings.length, 4, "a recurring problem is reported again");
  });

  it("is every annotation in iptables mode, until the Service is deleted", async () => {
    const annotated = web({
      "kube-ipvs.io/scheduler": "wrr",
      "kube-ipvs.io/schedular": "wrr",
      "kube-ipvs.io/weights": "heavy",
    });
    await node.start([...other, annotated, endpoints], {
      "proxy-mode": "iptables",
      "iptables-min-sync-period": "0s",
    });
    assert.deepEqual(
      node.warnings.map(({ keys }) => `${keys["annotation"]} ${keys["reason"]}`),
      [
        "kube-ipvs.io/schedular unknown-annotation",
        "kube-ipvs.io/scheduler annotation-without-effect",
        "kube-ipvs.io/weights invalid-annotation",
      ],
    );
    assert.equal(node.warnings[1]?.keys["message"], "annotations apply only in IPVS mode");
    assert.equal(node.events.filter(({ reason }) => reason === "IgnoredAnnotation").length, 3);
    assert.equal(node.ignored.get("annotation-without-effect"), 1);
    node.source.delete(annotated as unknown as NamedObject);
    await node.apply();
    assert.equal(node.ignored.get("annotation-without-effect"), 0);
  });

  it("can be one that is not a string", async () => {
    await node.start([...other, web({ "kube-ipvs.io/scheduler": { a: 1 } }), endpoints]);
    assert.deepEqual(node.servers, plain);
  });
});

/** Real server weights of `10.96.0.10:80`, by address. */
function weights(): readonly string[] {
  const lines = node.servers.filter((line) => line.startsWith("-a -t 10.96.0.10:80"));
  return lines.map((line) => line.replace(/.* -r (.*):8080 -m -w (\d+).*/, "$1 $2"));
}

describe("connection limits", () => {
  it("are written to this Service's real servers, and removed with the annotation", async () => {
    await node.start([...other, web(), endpoints]);
    const update = (text: string): readonly string[] =>
      ["10", "20"].map((end) => `ipvs ${text} TCP 10.96.0.10:80 -> 10.244.1.${end}:8080`);
    const limited = web({ "kube-ipvs.io/max-connections": "100,80" });
    assert.deepEqual(await node.apply(limited), update("real-server-update"));
    assert.equal(node.servers[2], "-a -t 10.96.0.10:80 -r 10.244.1.10:8080 -m -w 1 -x 100 -y 80");
    assert.deepEqual(await node.pass(60_000), [], "verification finds them correct");
    assert.deepEqual(await node.apply(web()), update("real-server-update"));
    assert.deepEqual(node.servers, plain);
  });

  it("have a default for all Services", async () => {
    const flags = { "kube-ipvs-max-connections": "7" };
    await node.start([...other, web({ "kube-ipvs.io/max-connections": "0" }), endpoints], flags);
    assert.deepEqual(node.servers.slice(3), [
      "-a -t 10.96.0.10:80 -r 10.244.1.20:8080 -m -w 1",
      "-a -t 10.96.0.20:80 -r 10.244.1.30:8080 -m -w 1 -x 7 -y 0",
    ]);
  });
});

describe("one-packet scheduling", () => {
  it("is a flag of the UDP virtual servers", async () => {
    const ports = [servicePort(), servicePort({ name: "dns", protocol: "UDP", port: 53 })];
    const named = (annotations: object): ApiObject => service({ ports, metadata: { annotations } });
    await node.start([named({}), endpoints]);
    const edit = ["ipvs virtual-server-update UDP 10.96.0.10:53"];
    assert.deepEqual(await node.apply(named({ "kube-ipvs.io/one-packet": "true" })), edit);
    assert.deepEqual(node.servers.slice(0, 2), [
      "-A -t 10.96.0.10:80 -s rr",
      "-A -u 10.96.0.10:53 -s rr -o",
    ]);
    assert.deepEqual(await node.apply(named({})), edit);
    assert.deepEqual(node.warnings, []);
  });
});

describe("a Service's drain deadline", () => {
  it("ends its drains, but not those of other Services", async () => {
    const ip = (text: string): IpAddress => parseIpAddress(text) as IpAddress;
    const connected = (virtual: string, real: string): void =>
      node.kernel.ipvs.setConnections(
        { protocol: "TCP", address: ip(virtual), port: 80 },
        { address: ip(real), port: 8080 },
        { active: 1 },
      );
    await node.start([...other, web({ "kube-ipvs.io/drain-deadline": "10s" }), endpoints]);
    connected("10.96.0.10", "10.244.1.10");
    connected("10.96.0.20", "10.244.1.30");
    await node.apply(
      endpointSlice({ endpoints: ["10.244.1.20"] }),
      endpointSlice({ service: "other", endpoints: ["10.244.1.31"] }),
    );
    assert.deepEqual(weights(), ["10.244.1.10 0", "10.244.1.20 1"]);
    await node.pass(9_000);
    assert.deepEqual(weights(), ["10.244.1.10 0", "10.244.1.20 1"]);
    assert.deepEqual(await node.pass(20_000), [
      "ipvs real-server-remove TCP 10.96.0.10:80 -> 10.244.1.10:8080",
    ]);
  });
});

describe("weights", () => {
  const canary = (weight: string): ApiObject =>
    endpointSlice({
      name: "web-canary",
      endpoints: ["10.244.1.40"],
      metadata: { annotations: { "kube-ipvs.io/weight": weight } },
    });
  const weighted = { "kube-ipvs.io/scheduler": "wrr", "kube-ipvs.io/weights": "slice" };

  it("are those of the EndpointSlices, and a change updates the real servers", async () => {
    await node.start([...other, web(weighted), endpoints, canary("3")]);
    assert.deepEqual(weights(), ["10.244.1.10 1", "10.244.1.20 1", "10.244.1.40 3"]);
    const update = ["ipvs real-server-update TCP 10.96.0.10:80 -> 10.244.1.40:8080"];
    assert.deepEqual(await node.apply(canary("0")), update);
    assert.deepEqual(weights(), ["10.244.1.10 1", "10.244.1.20 1", "10.244.1.40 0"]);
    assert.deepEqual(await node.pass(120_000), [], "weight 0 is not treated as a drain");
    assert.deepEqual(await node.apply(canary("2")), update);
    await node.apply(web());
    assert.deepEqual(weights(), ["10.244.1.10 1", "10.244.1.20 1", "10.244.1.40 1"]);
  });

  it("are those of the endpoints' Nodes, and a changed label updates the real servers", async () => {
    const onNodes = endpointSlice({
      endpoints: [
        endpoint("10.244.1.10", { nodeName: "node-2" }),
        endpoint("10.244.1.20", { nodeName: "node-3" }),
        endpoint("10.244.1.40"),
      ],
    });
    const large = (weight: string): ApiObject =>
      nodeObject({ name: "node-2", labels: { "kube-ipvs.io/weight": weight } });
    const byNode = { "kube-ipvs.io/scheduler": "wlc", "kube-ipvs.io/weights": "node" };
    await node.start([...other, web(byNode), onNodes, large("4"), nodeObject({ name: "node-3" })]);
    assert.deepEqual(weights(), ["10.244.1.10 4", "10.244.1.20 1", "10.244.1.40 1"]);
    assert.deepEqual(await node.apply(large("8")), [
      "ipvs real-server-update TCP 10.96.0.10:80 -> 10.244.1.10:8080",
    ]);
    await node.apply(large("heavy"));
    assert.deepEqual(weights(), ["10.244.1.10 1", "10.244.1.20 1", "10.244.1.40 1"]);
  });

  it("that are invalid are reported on the Service, and 1 is used instead", async () => {
    await node.start([...other, web(weighted), endpoints, canary("many")]);
    assert.deepEqual(weights(), ["10.244.1.10 1", "10.244.1.20 1", "10.244.1.40 1"]);
    assert.deepEqual(
      node.warnings.map(({ keys }) => keys["message"]),
      ["on EndpointSlice default/web-canary: must be a number from 0 to 65535"],
    );
  });

  it("give a canary its share regardless of its number of endpoints", async () => {
    const share = (percent: number): ApiObject =>
      web({
        "kube-ipvs.io/scheduler": "wrr",
        "kube-ipvs.io/canary": `slice=web-canary,share=${percent}%`,
      });
    await node.start([...other, share(10), endpoints, canary("7")]);
    assert.deepEqual(weights(), ["10.244.1.10 9", "10.244.1.20 9", "10.244.1.40 2"]);
    await node.apply(share(0));
    assert.deepEqual(weights(), ["10.244.1.10 1", "10.244.1.20 1", "10.244.1.40 0"]);
    await node.apply(share(100));
    assert.deepEqual(weights(), ["10.244.1.10 0", "10.244.1.20 0", "10.244.1.40 1"]);
    node.source.delete(canary("7") as never);
    await node.pass(0);
    assert.deepEqual(weights(), ["10.244.1.10 1", "10.244.1.20 1"]);
  });

  it("give a zone's endpoints their share", async () => {
    const inZones = endpointSlice({
      endpoints: [
        endpoint("10.244.1.10", { zone: "a" }),
        endpoint("10.244.1.20", { zone: "b" }),
        endpoint("10.244.1.40", { zone: "b" }),
      ],
    });
    const annotations = {
      "kube-ipvs.io/scheduler": "wlc",
      "kube-ipvs.io/canary": "zone=a,share=25%",
    };
    await node.start([...other, web(annotations), inZones]);
    assert.deepEqual(weights(), ["10.244.1.10 2", "10.244.1.20 3", "10.244.1.40 3"]);
  });
});

describe("a topology preference", () => {
  const label = "example.com/rack";
  const preferring = web({ "kube-ipvs.io/prefer-topology": `${label},minimum=100%` });
  const nodesIn = (...racks: readonly (string | undefined)[]): readonly ApiObject[] =>
    racks.map((rack, index) => {
      const labels = rack === undefined ? {} : { [label]: rack };
      return nodeObject({ name: `node-${index + 1}`, labels });
    });
  const onNodes = endpointSlice({
    endpoints: [1, 2, 3].map((n) => endpoint(`10.244.${n}.10`, { nodeName: `node-${n}` })),
  });
  const [near, far, other] = ["10.244.1.10 1", "10.244.2.10 1", "10.244.3.10 1"];
  const virtual = { protocol: "TCP", address: parseIpAddress("10.96.0.10"), port: 80 } as const;
  const real = { address: parseIpAddress("10.244.2.10"), port: 8080 } as const;

  it("follows labels, and does not exclude endpoints if the preferred ones are below the minimum", async () => {
    await node.start([preferring, onNodes, ...nodesIn("a", "b", "b")]);
    assert.deepEqual(weights(), [near]);
    await node.apply(...nodesIn("a", "a", "b"));
    assert.deepEqual(weights(), [near, far]);
    // Two of three Nodes would share one of three endpoints.
    const unknown = endpoint("10.244.2.10", { nodeName: "node-9" });
    await node.apply(
      endpointSlice({ endpoints: [endpoint("10.244.1.10", { nodeName: "node-1" }), unknown] }),
    );
    assert.deepEqual(weights(), [near, far]);
    await node.apply(onNodes, ...nodesIn(undefined, "a", "b"));
    assert.deepEqual(weights(), [near, far, other]);
    assert.deepEqual(node.warnings, []);
    await node.apply(...nodesIn(undefined, undefined, undefined));
    assert.deepEqual(
      node.warnings.map(({ keys }) => [keys["reason"], keys["message"]]),
      [["annotation-without-effect", `no Node has the label ${label}`]],
    );
  });

  it("keeps open connections to ready endpoints, whose drain deadline begins when they stop being ready", async () => {
    await node.start([preferring, onNodes, ...nodesIn("a", "a", "b")]);
    node.kernel.ipvs.setConnections(virtual as never, real as never, { active: 1 });
    await node.apply(...nodesIn("a", "b", "b"));
    assert.deepEqual(weights(), [near, "10.244.2.10 0"]);
    assert.deepEqual(await node.pass(3_600_000), []);
    await node.apply(
      endpointSlice({
        endpoints: [1, 3].map((n) => endpoint(`10.244.${n}.10`, { nodeName: `node-${n}` })),
      }),
    );
    assert.deepEqual(await node.pass(800_000), []);
    assert.deepEqual(await node.pass(200_000), [
      "ipvs real-server-remove TCP 10.96.0.10:80 -> 10.244.2.10:8080",
    ]);
  });
});

describe("a slow start", () => {
  const slow = web({ "kube-ipvs.io/scheduler": "wrr", "kube-ipvs.io/slow-start": "90s" });
  const three = endpointSlice({ endpoints: ["10.244.1.10", "10.244.1.20", "10.244.1.40"] });
  const update = ["ipvs real-server-update TCP 10.96.0.10:80 -> 10.244.1.40:8080"];

  it("lets the weight of a new endpoint grow in steps, without other changes", async () => {
    await node.start([...other, slow, endpoints]);
    assert.deepEqual(weights(), ["10.244.1.10 10", "10.244.1.20 10"]);
    assert.deepEqual(await node.apply(three), [
      "ipvs real-server-create TCP 10.96.0.10:80 -> 10.244.1.40:8080",
    ]);
    for (let step = 1; step < 10; step++) {
      assert.deepEqual(weights(), ["10.244.1.10 10", "10.244.1.20 10", `10.244.1.40 ${step}`]);
      assert.deepEqual(await node.pass(10_000), update);
    }
    assert.deepEqual(weights(), ["10.244.1.10 10", "10.244.1.20 10", "10.244.1.40 10"]);
    assert.deepEqual(await node.pass(120_000), []);
  });

  it("ends when its annotation is removed", async () => {
    await node.start([...other, slow, endpoints]);
    await node.apply(three);
    await node.apply(web());
    assert.deepEqual(weights(), ["10.244.1.10 1", "10.244.1.20 1", "10.244.1.40 1"]);
    assert.deepEqual(await node.pass(60_000), []);
  });

  it("continues after a restart", async () => {
    let recorded: ReadonlyMap<string, number> = new Map();
    const times = {
      recall: (key: string) => recorded.get(key),
      keep: (startedMs: ReadonlyMap<string, number>) => {
        recorded = startedMs;
      },
    };
    await node.start([...other, slow, endpoints], {}, times);
    await node.apply(three);
    await node.pass(35_000);
    assert.deepEqual(weights(), ["10.244.1.10 10", "10.244.1.20 10", "10.244.1.40 4"]);
    await node.stop();
    await node.start([], {}, times);
    assert.deepEqual(weights(), ["10.244.1.10 10", "10.244.1.20 10", "10.244.1.40 4"]);
    assert.deepEqual(await node.pass(10_000), update);
    await node.pass(50_000);
    assert.deepEqual(weights(), ["10.244.1.10 10", "10.244.1.20 10", "10.244.1.40 10"]);
    assert.equal(recorded.size, 0);
  });

  it("slows down neither a Service's first endpoints nor those that exist at startup", async () => {
    await node.start([...other, slow]);
    await node.apply(endpoints);
    assert.deepEqual(weights(), ["10.244.1.10 10", "10.244.1.20 10"]);
  });
});

describe("a default for all Services", () => {
  it("for one-packet scheduling can be overridden by a Service", async () => {
    const ports = [servicePort({ name: "dns", protocol: "UDP", port: 53 })];
    const named = (name: string, clusterIp: string, annotations: object): ApiObject =>
      service({ name, clusterIps: [clusterIp], ports, metadata: { annotations } });
    const own = named("other", "10.96.0.20", { "kube-ipvs.io/one-packet": "false" });
    await node.start([named("web", "10.96.0.10", {}), own], { "kube-ipvs-one-packet": "true" });
    assert.deepEqual(node.servers, ["-A -u 10.96.0.10:53 -s rr -o", "-A -u 10.96.0.20:53 -s rr"]);
  });

  it("for weights can be overridden by a Service", async () => {
    const heavy = (name: string, address: string): ApiObject => {
      const metadata = { annotations: { "kube-ipvs.io/weight": "3" } };
      return endpointSlice({ service: name, endpoints: [address], metadata });
    };
    const own = service({
      name: "other",
      clusterIps: ["10.96.0.20"],
      metadata: { annotations: { "kube-ipvs.io/weights": "equal" } },
    });
    const objects = [web(), heavy("web", "10.244.1.10"), own, heavy("other", "10.244.1.30")];
    await node.start(objects, { "ipvs-scheduler": "wrr", "kube-ipvs-weights": "slice" });
    assert.deepEqual(node.servers.slice(2), [
      "-a -t 10.96.0.10:80 -r 10.244.1.10:8080 -m -w 3",
      "-a -t 10.96.0.20:80 -r 10.244.1.30:8080 -m -w 1",
    ]);
  });

  it("for slow start can be overridden by a Service", async () => {
    const own = web({ "kube-ipvs.io/slow-start": "0s" });
    const flags = { "ipvs-scheduler": "wrr", "kube-ipvs-slow-start": "90s" };
    await node.start([...other, own, endpoints], flags);
    assert.deepEqual(node.servers.slice(2), [
      "-a -t 10.96.0.10:80 -r 10.244.1.10:8080 -m -w 1",
      "-a -t 10.96.0.10:80 -r 10.244.1.20:8080 -m -w 1",
      "-a -t 10.96.0.20:80 -r 10.244.1.30:8080 -m -w 10",
    ]);
  });

  it("for drain deadlines can be overridden by a Service", async () => {
    const ip = (text: string): IpAddress => parseIpAddress(text) as IpAddress;
    const own = web({ "kube-ipvs.io/drain-deadline": "1h" });
    await node.start([...other, own, endpoints], { "kube-ipvs-tcp-drain-deadline": "10s" });
    for (const [virtual, real] of [
      ["10.96.0.10", "10.244.1.10"],
      ["10.96.0.20", "10.244.1.30"],
    ] as const) {
      const server = { protocol: "TCP", address: ip(virtual), port: 80 } as const;
      node.kernel.ipvs.setConnections(server, { address: ip(real), port: 8080 }, { active: 1 });
    }
    await node.apply(
      endpointSlice({ endpoints: ["10.244.1.20"] }),
      endpointSlice({ service: "other", endpoints: ["10.244.1.31"] }),
    );
    assert.deepEqual(await node.pass(30_000), [
      "ipvs real-server-remove TCP 10.96.0.20:80 -> 10.244.1.30:8080",
    ]);
  });
});

describe("weights that endpoints answer", () => {
  const asking = web({
    "kube-ipvs.io/scheduler": "wrr",
    "kube-ipvs.io/weights": "http=:8080/weight",
  });
  const flags = { "kube-ipvs-weight-request-period": "10s" };
  const weights = (): string =>
    node.servers.flatMap((line) => / -w (\d+)$/.exec(line)?.[1] ?? []).join(" ");

  it("change only the weights of real servers, and invalid ones are reported on the Service", async () => {
    node.askWeight = ({ address, port, path }) => {
      assert.deepEqual([port, path], [8080, "/weight"]);
      return Promise.resolve(
        address === "10.244.1.10" ? { weight: 30 } : { problem: "status 302" },
      );
    };
    await node.start([asking, endpoints], flags);
    assert.equal(weights(), "1 1");
    // Less than two periods, so that no endpoint has failed three times, whatever its first request's random time.
    assert.deepEqual(await node.pass(19_000), [
      "ipvs real-server-update TCP 10.96.0.10:80 -> 10.244.1.10:8080",
      "ipvs real-server-update TCP 10.96.0.10:80 -> 10.244.1.20:8080",
    ]);
    assert.equal(weights(), "30 30", "without an answer, the weight is the average");
    assert.equal(node.ignored.get("invalid-weight-answer"), 0);
    assert.deepEqual(await node.pass(30_000), []);
    assert.equal(node.ignored.get("invalid-weight-answer"), 1);
    const notes = node.events.map(({ reason, note }) => `${reason}: ${note}`);
    assert.match(
      notes.join("\n"),
      /IgnoredAnnotation: .*1 of 2 endpoints have no valid weight, such as 10.244.1.20:8080: status 302/,
    );
    node.askWeight = () => Promise.resolve({ weight: 5 });
    await node.pass(30_000);
    assert.equal(weights(), "5 5");
    assert.equal(node.ignored.get("invalid-weight-answer"), 0);
    await node.apply(web(), endpoints);
    assert.equal(weights(), "1 1");
  });
});
