/** What annotations change in the kernel, and what is said of those that do not count. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { type ApiObject, endpointSlice, service } from "../../support/objects.ts";
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

describe("the annotation for the scheduler", () => {
  it("is an edit of this Service's virtual server, and removing it restores the default", async () => {
    await node.start([...other, web(), endpoints]);
    assert.deepEqual(node.servers, plain);
    const annotations = {
      "kube-ipvs.io/scheduler": "sh",
      "kube-ipvs.io/scheduler-flags": "sh-port,sh-fallback",
    };
    const edit = ["ipvs update-virtual-server TCP 10.96.0.10:80"];
    assert.deepEqual(await node.apply(web(annotations)), edit);
    assert.equal(node.servers[0], "-A -t 10.96.0.10:80 -s sh -b sh-fallback,sh-port");
    assert.deepEqual(await node.apply(web()), edit);
    assert.deepEqual(node.servers, plain);
    assert.deepEqual(node.warnings, []);
  });

  it("falls back where the kernel lacks it, is named, and counts once the module is there", async () => {
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
          message: "the kernel has no scheduler mh: modprobe ip_vs_mh on the node",
        },
      },
    ]);
    node.kernel.ipvs.schedulers.add("mh");
    assert.deepEqual(await node.pass(61_000), ["ipvs update-virtual-server TCP 10.96.0.10:80"]);
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

describe("an annotation that does not count", () => {
  it("is named once: in the log, as an Event and in a metric, and the default counts", async () => {
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
    assert.equal(node.warnings.length, 4, "what comes back is named again");
  });

  it("is one that is no string", async () => {
    await node.start([...other, web({ "kube-ipvs.io/scheduler": { a: 1 } }), endpoints]);
    assert.deepEqual(node.servers, plain);
  });
});
