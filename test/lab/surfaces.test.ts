/**
 * Tests the external interfaces of the built program in a cluster: health, health-check node ports, HTTP pages and
 * Events.
 */
import assert from "node:assert/strict";
import { createServer } from "node:net";
import { after, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { ApiServer } from "../support/api-server/api-server.ts";
import { type ApiObject, endpoint, endpointSlice, node, service } from "../support/objects.ts";
import { Program } from "../support/program.ts";

const healthPort = 31_999;

/** A load balancer with both IP families and policy Local. */
const balanced: ApiObject = service({
  type: "LoadBalancer",
  clusterIps: ["10.96.0.10", "fd00:96::10"],
  spec: { externalTrafficPolicy: "Local", healthCheckNodePort: healthPort },
});
/** One local endpoint over IPv4, and none over IPv6. */
const slices: readonly ApiObject[] = [
  endpointSlice({ endpoints: [endpoint("10.244.1.10", { nodeName: "node-1" })] }),
  endpointSlice({ name: "web-6", endpoints: [endpoint("fd00:244::9", { nodeName: "node-2" })] }),
];

const otherTaint = { key: "a", effect: "NoSchedule" };
const notReadyTaint = { key: "kube-ipvs/not-ready", effect: "NoSchedule" };

let server: ApiServer;
let program: Program;
/** Another program's server, which uses the IPv6 port. */
const other = createServer();

before(async () => {
  const own = node({ name: "node-1", spec: { taints: [otherTaint, notReadyTaint] } });
  server = await ApiServer.start({ objects: [own, balanced, ...slices] });
  await new Promise<void>((resolve) =>
    other.listen({ host: "::", port: healthPort, ipv6Only: true }, resolve),
  );
  const flags = ["--hostname-override=node-1", "--ipvs-min-sync-period=0s", "-v=2"];
  flags.push("--kube-ipvs-remove-not-ready-taint");
  program = new Program([`--master=${server.url}`, ...flags]);
  await program.prints(/SyncProxyRules complete/);
});
after(async () => {
  program.kill("SIGKILL");
  await program.ends();
  await server.stop();
});

async function get(target: string): Promise<readonly [status: number, body: string]> {
  const response = await fetch(`http://${target}`, { headers: { connection: "close" } });
  return [response.status, await response.text()];
}

/** Waits until the check passes. The lab's timeout limits the wait. */
async function eventually(check: () => Promise<void>): Promise<void> {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    if (
      await check().then(
        () => true,
        () => false,
      )
    )
      return;
    await pause(200);
  }
  await check();
}

function told(): readonly string[] {
  return server.events.events.map(({ reason, note, regarding }) => {
    const { kind, name } = regarding as { kind: string; name: string };
    return `${reason} ${kind} ${name}: ${note}`;
  });
}

describe("a health-check node port", () => {
  it("answers for each family separately, and a port in use causes an Event on the Service", async () => {
    await eventually(async () => assert.equal((await get(`127.0.0.1:${healthPort}/`))[0], 200));
    const failed = `FailedToStartServiceHealthcheck Service web: node node-1 failed to start healthcheck "default/web" on port ${healthPort}: EADDRINUSE (another process is using this port; to find it, run on the node: ss -ltnp)`;
    await eventually(async () => assert.ok(told().includes(failed), told().join("\n")));
    assert.match(program.output, /"Cannot listen for HTTP" server="health check of default\/web"/);
    await new Promise((resolve) => other.close(resolve));
    await program.prints(/"HTTP server is listening" server="health check of default\/web"/);
    const response = await fetch(`http://[::1]:${healthPort}/`);
    assert.deepEqual(
      [response.status, response.headers.get("x-load-balancing-endpoint-weight")],
      [503, "0"],
    );
    assert.deepEqual(JSON.parse(await response.text()), {
      service: { namespace: "default", name: "web" },
      localEndpoints: 0,
      serviceProxyHealthy: true,
    });
  });
});

describe("the node", () => {
  /** The Node's taint keys in the API server. */
  async function taints(): Promise<readonly string[]> {
    const response = await fetch(`${server.url}/api/v1/nodes/node-1`);
    const { spec } = (await response.json()) as {
      readonly spec: { readonly taints?: readonly { readonly key: string }[] };
    };
    return (spec.taints ?? []).map(({ key }) => key);
  }

  it("loses its taint kube-ipvs/not-ready after the first sync, and keeps its other taints", async () => {
    await eventually(async () => assert.deepEqual(await taints(), ["a"]));
    assert.match(program.output, /"Removed taint from Node" taint="kube-ipvs\/not-ready"/);
    const lines = program.output.split("\n");
    const at = (event: string): number => lines.findIndex((line) => line.includes(`"${event}"`));
    assert.ok(at("SyncProxyRules complete") < at("Removed taint from Node"), program.output);
  });

  it("has the startup Event", async () => {
    await eventually(async () => assert.ok(told().includes("Starting Node node-1: ")));
  });

  it("is reported as not eligible after the autoscaler has marked it, while the program keeps running", async () => {
    assert.equal((await get("127.0.0.1:10256/healthz"))[0], 200);
    const taints = [{ key: "ToBeDeletedByClusterAutoscaler", effect: "NoSchedule" }];
    server.apply(node({ name: "node-1", spec: { taints } }));
    await eventually(async () => {
      const [status, body] = await get("127.0.0.1:10256/healthz");
      assert.equal(status, 503);
      assert.match(body, /"nodeEligible":false,"healthy":true/);
    });
    assert.equal((await get("127.0.0.1:10256/livez"))[0], 200);
  });
});

describe("the metrics address", () => {
  it("shows the current configuration, the flags and the program", async () => {
    const [, configz] = await get("127.0.0.1:10249/configz");
    const shown = (JSON.parse(configz) as Record<string, { kind: string; mode: string }>)[
      "kubeproxy.config.k8s.io"
    ];
    assert.deepEqual([shown?.kind, shown?.mode], ["KubeProxyConfiguration", "ipvs"]);
    assert.match((await get("127.0.0.1:10249/flagz"))[1], /^hostname-override=node-1$/m);
    assert.match((await get("127.0.0.1:10249/statusz"))[1], /^Binary version: 1\.36\.\d+ /m);
    assert.equal((await get("127.0.0.1:10249/debug/pprof/"))[0], 404);
  });

  it("counts Events among the requests to the API server", async () => {
    const [, metrics] = await get("127.0.0.1:10249/metrics");
    assert.match(
      metrics,
      /^rest_client_requests_total\{code="201",method="POST",host="127\.0\.0\.1:\d+"\} [1-9]/m,
    );
    assert.match(metrics, /^kubernetes_feature_enabled\{name="AllAlpha",stage="ALPHA"\} 0$/m);
  });
});
