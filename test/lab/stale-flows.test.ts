/**
 * Tests UDP clients that keep their source port while a Service's pods change, with the built program, real pods, an
 * external client and the conntrack entries.
 */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { Datagrams } from "../support/client-traffic.ts";
import { LabNode } from "../support/lab-node.ts";
import { shell } from "../support/netns/network-namespace.ts";
import { clientAddress, nodeAddress, podGateway } from "../support/node-network.ts";
import { assertNotLogged } from "../support/not-logged.ts";
import { type ApiObject, endpoint, endpointSlice, service } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { ip } from "../support/records.ts";

const [first, second] = [
  { name: "pod-1", address: "10.244.1.10" },
  { name: "pod-2", address: "10.244.1.20" },
];
const clusterIp = "10.96.0.10";
const nodePort = 30_053;
const slicePorts = [{ name: "dns", protocol: "UDP", port: 5353 }];

function dns(overlay: Parameters<typeof service>[0] = {}): ApiObject {
  const port = { name: "dns", protocol: "UDP", port: 53, nodePort, targetPort: 5353 };
  return service({ name: "dns", type: "NodePort", ports: [port], ...overlay });
}

function slice(...addresses: readonly string[]): ApiObject {
  const endpoints = addresses.map((address) => endpoint(address, { nodeName: "node-1" }));
  return endpointSlice({ name: "dns-a", service: "dns", endpoints, ports: slicePorts });
}

function slice6(...endpoints: readonly string[]): ApiObject {
  return endpointSlice({ name: "dns-6", service: "dns", endpoints, ports: slicePorts });
}

/** Ways to reach the Service, each with the destination, the source that the pod sees, and the virtual server. */
const ways = [
  { name: "cluster IP", address: clusterIp, port: 53, answersTo: podGateway },
  { name: "node port", address: nodeAddress, port: nodePort, answersTo: podGateway },
].map((way) => ({
  ...way,
  server: { protocol: "UDP", address: ip(way.address), port: way.port } as const,
}));

describe("a UDP client that keeps its source port", () => {
  let node: LabNode;
  let client: Datagrams;
  let sourcePort = 20_000;

  before(async () => {
    node = await LabNode.build([first, second]);
  });
  afterEach(async () => {
    client.close();
    await node.clear();
  });
  after(() => node.destroy());

  async function newClient(): Promise<void> {
    sourcePort += 1;
    client = await Datagrams.open(sourcePort);
  }

  /** Sends requests until `name` answers, and returns the number of milliseconds. */
  async function reaches(way: (typeof ways)[number], name: string): Promise<number> {
    const beganMs = performance.now();
    let answer = "";
    while (answer !== name) {
      const elapsedMs = performance.now() - beganMs;
      assert.ok(elapsedMs < patienceMs, `${answer} after ${elapsedMs} ms\n${flows()}`);
      answer = await client.ask(way.address, way.port, 200);
    }
    return performance.now() - beganMs;
  }

  for (const way of ways) {
    it(`is sent to another pod soon after its pod is gone: ${way.name}`, async (test) => {
      await newClient();
      node.apply(dns(), slice(first.address));
      await node.start();
      assert.equal(await client.ask(way.address, way.port), "pod-1");
      node.apply(dns(), slice(second.address));
      const elapsedMs = await reaches(way, "pod-2");
      await node.program.prints(/"Real server draining"/);
      test.diagnostic(`${Math.round(elapsedMs)} ms`);
      for (let turn = 0; turn < 5; turn++) {
        assert.equal(await client.ask(way.address, way.port), "pod-2");
      }
      assert.doesNotMatch(flows(), new RegExp(`dst=${way.address} .*src=${first.address} `));
    });

    it(`is sent to another pod immediately if UDP does not drain: ${way.name}`, async (test) => {
      await newClient();
      node.apply(dns(), slice(first.address));
      await node.start(["--kube-ipvs-udp-drain-deadline=0s"]);
      assert.equal(await client.ask(way.address, way.port), "pod-1");
      node.apply(dns(), slice(second.address));
      const elapsedMs = await reaches(way, "pod-2");
      assertNotLogged(node.program.output, "Real server draining");
      test.diagnostic(`${Math.round(elapsedMs)} ms`);
    });

    it(`reaches the first pod of a Service that had no endpoints, through the ${way.name}`, async () => {
      await newClient();
      node.apply(dns());
      await node.start();
      for (let turn = 0; turn < 3; turn++) {
        assert.equal(await client.ask(way.address, way.port, 100), "nobody");
      }
      node.apply(dns(), slice(first.address));
      await reaches(way, "pod-1");
    });

    it(`reaches the pod of a Service that was created after the client, through the ${way.name}`, async () => {
      await newClient();
      await node.start();
      for (let turn = 0; turn < 3; turn++) {
        assert.equal(await client.ask(way.address, way.port, 100), "nobody");
      }
      assert.match(flows(), new RegExp(`dst=${way.address} sport=${sourcePort} dport=${way.port}`));
      node.apply(dns(), slice(first.address));
      await reaches(way, "pod-1");
      // The untranslated flow is gone. The new one is translated, and masqueraded if necessary.
      const translated = `src=${first.address} dst=${way.answersTo} sport=5353`;
      const flow = `sport=${sourcePort} dport=${way.port} (\\[UNREPLIED\\] )?${translated}`;
      assert.match(flows(), new RegExp(flow));
    });
  }

  it("keeps its flow, as do all flows that a change does not affect", async () => {
    await newClient();
    const [way] = ways as [(typeof ways)[number]];
    node.apply(dns(), slice(second.address));
    await node.start(["--kube-ipvs-udp-drain-deadline=0s"]);
    assert.equal(await client.ask(way.address, way.port), "pod-2");
    node.apply(dns(), slice(first.address, second.address));
    await node.hasWeights(way.server, "pod-1 1, pod-2 1");
    track({ destination: clusterIp, port: 53, answeredBy: first.address, answerPort: 5353 });
    // The same port numbers at another node address, at another host, and with a different protocol.
    track({ destination: nodeAddress, port: 53, answeredBy: first.address, answerPort: 5353 });
    track({ destination: "203.0.113.1", port: nodePort, answeredBy: "203.0.113.1" });
    track({ destination: "203.0.113.1", port: 53, answeredBy: first.address, answerPort: 5353 });
    track({ protocol: "tcp", destination: clusterIp, port: 53, answeredBy: first.address });
    const before = flowIds();
    assert.equal(before.size, 6);
    node.apply(dns(), slice(second.address));
    await node.hasWeights(way.server, "pod-2 1");
    await node.program.prints(/real-server-remove|SyncProxyRules complete/);
    const gone = [...before].filter(([id]) => !flowIds().has(id)).map(([, text]) => text);
    assert.equal(gone.length, 1, gone.join("\n"));
    assert.match(gone[0] ?? "", new RegExp(`dst=${clusterIp} .* src=${first.address} `));
    assert.equal(await client.ask(way.address, way.port), "pod-2");
  });

  it("loses flows that became stale while the program was stopped", async () => {
    await newClient();
    node.apply(dns(), slice(first.address, second.address));
    await node.start();
    await node.stop();
    track({ destination: clusterIp, port: 53, answeredBy: "10.244.1.99", answerPort: 5353 });
    track({
      destination: nodeAddress,
      port: nodePort,
      answeredBy: "10.244.1.99",
      answerPort: 5353,
    });
    track({ destination: clusterIp, port: 53, answeredBy: first.address, answerPort: 5353 });
    await node.start();
    assert.doesNotMatch(flows(), /10\.244\.1\.99/);
    assert.match(flows(), new RegExp(`src=${first.address} `));
    const counted = await node.metric(
      'kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"}',
    );
    assert.equal(counted, 2);
  });

  it("also loses stale IPv6 flows, but only if the pod no longer exists", async () => {
    await newClient();
    const both = dns({ clusterIps: [clusterIp, "fd00:96::a"] });
    const [alive, gone] = ["fd00:244::5", "fd00:244::6"];
    node.apply(both, slice6(alive, gone));
    await node.start(["--kube-ipvs-udp-drain-deadline=0s"]);
    const ways6 = { destination: "fd00:96::a", port: 53, answerPort: 5353 };
    track({ ...ways6, answeredBy: alive });
    track({ ...ways6, answeredBy: gone });
    track({ ...ways6, answeredBy: gone, destination: "fd00:96::b" });
    node.apply(both, slice6(alive));
    const server = { protocol: "UDP", address: ip("fd00:96::a"), port: 53 } as const;
    await node.hasWeights(server, `${alive} 1`);
    const left = [...flowIds("ipv6").values()];
    assert.equal(left.length, 2, left.join("\n"));
    assert.match(left.join("\n"), new RegExp(`dst=fd00:96::a .* src=${alive} `));
    assert.match(left.join("\n"), new RegExp(`dst=fd00:96::b .* src=${gone} `));
  });

  /** Creates a conntrack entry as a packet would. */
  function track(flow: {
    readonly destination: string;
    readonly port: number;
    readonly answeredBy: string;
    readonly answerPort?: number;
    readonly protocol?: string;
  }): void {
    sourcePort += 1;
    const { destination, port, answeredBy, answerPort = port, protocol = "udp" } = flow;
    const source = destination.includes(":") ? "fd00:10::1" : clientAddress;
    shell(
      `conntrack -I -p ${protocol} -t 60 ${protocol === "tcp" ? "--state ESTABLISHED" : ""}` +
        ` -s ${source} --sport ${sourcePort} -d ${destination} --dport ${port}` +
        ` -r ${answeredBy} --reply-port-src ${answerPort}` +
        ` -q ${source} --reply-port-dst ${sourcePort} 2> /dev/null`,
    );
  }
});

function flows(family = "ipv4"): string {
  return shell(`conntrack -L -f ${family} -o id 2> /dev/null`);
}

/** Flows with one of this suite's ports, by kernel ID. */
function flowIds(family?: string): ReadonlyMap<string, string> {
  const lines = flows(family)
    .split("\n")
    .filter((line) => /dport=(53|30053) /.test(line));
  return new Map(lines.map((line) => [/ id=(\d+)/.exec(line)?.[1] ?? "", line]));
}
