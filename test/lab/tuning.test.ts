/**
 * Tests how a Service's annotations affect traffic, with the built program, real pods and an external client. The Service
 * has both IP families.
 */
import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { askName, Connection } from "../support/client-traffic.ts";
import { LabNode, until } from "../support/lab-node.ts";
import { shell } from "../support/netns/network-namespace.ts";
import { addIpv6, clientAddress, ipv6Of } from "../support/node-network.ts";
import {
  type ApiObject,
  endpoint,
  endpointSlice,
  node as nodeObject,
  service,
} from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { ip } from "../support/records.ts";
import { rulesFlags } from "../support/rules-writer.ts";
import { kubeIpvs } from "../support/run-kube-ipvs.ts";

const [first, second] = [
  { name: "pod-1", address: "10.244.1.10" },
  { name: "pod-2", address: "10.244.1.20" },
];
const clusterIp = "10.96.0.10";
const clusterIps = { IPv4: clusterIp, IPv6: "fd00:96::a" } as const;
const tcp = { protocol: "TCP", address: ip(clusterIp), port: 80 } as const;
const flags = ["--cluster-cidr=10.244.0.0/16,fd00:244::/32", ...rulesFlags];
const ports = [
  { name: "http", protocol: "TCP", port: 80, targetPort: 8080 },
  { name: "dns", protocol: "UDP", port: 53, targetPort: 5353 },
];
const slicePorts = [
  { name: "http", protocol: "TCP", port: 8080 },
  { name: "dns", protocol: "UDP", port: 5353 },
];

const rackLabel = "example.com/rack";
const weightLabel = "kube-ipvs.io/weight";

type Annotations = Readonly<Record<string, string>>;

function web(annotations: Annotations): ApiObject {
  const named = Object.entries(annotations).map(([name, value]) => [`kube-ipvs.io/${name}`, value]);
  return service({
    ...{ ports, clusterIps: Object.values(clusterIps) },
    metadata: { annotations: Object.fromEntries(named) },
  });
}

/** A slice with one endpoint and its own weight. */
function slice(name: string, address: string, weight: string): ApiObject {
  const annotations = { "kube-ipvs.io/weight": weight };
  return endpointSlice({
    name,
    endpoints: [address],
    ports: slicePorts,
    metadata: { annotations },
  });
}

/** The slice with its endpoints' IPv6 addresses. */
function inIpv6(slice: ApiObject): ApiObject {
  const { metadata, endpoints } = slice as unknown as {
    readonly metadata: { readonly name: string };
    readonly endpoints: readonly { readonly addresses: readonly string[] }[];
  };
  return {
    ...slice,
    metadata: { ...metadata, name: `${metadata.name}-ipv6` },
    addressType: "IPv6",
    endpoints: endpoints.map((one) => ({
      ...one,
      addresses: one.addresses.map((address) => ipv6Of({ address, name: "" })),
    })),
  } as ApiObject;
}

const slices = [slice("web-1", first.address, "3"), slice("web-2", second.address, "1")];

describe("annotations of a Service", () => {
  let node: LabNode;
  let connections: Connection[];

  before(async () => {
    node = await LabNode.build([first, second]);
    addIpv6([first, second]);
    apply(web({}), ...slices);
    await node.start(flags);
  });
  beforeEach(() => {
    connections = [];
  });
  afterEach(() => {
    for (const connection of connections) connection.reset();
  });
  after(() => node.destroy());

  function apply(...objects: readonly ApiObject[]): void {
    const added = objects.filter(({ kind }) => kind === "EndpointSlice").map(inIpv6);
    node.apply(...objects, ...added);
  }

  /** In IPv6, an endpoint with weight 0 may be removed, because it has had no connections. */
  async function haveWeights(wanted: string): Promise<void> {
    await node.hasWeights(tcp, wanted);
    const server = { ...tcp, address: ip(clusterIps.IPv6) };
    const without0 = (text: string): string =>
      text
        .split(", ")
        .filter((one) => !one.endsWith(" 0"))
        .join();
    await until(
      async () => without0(await node.weights(server)) === without0(wanted),
      patienceMs,
      async () => `${wanted} is wanted, not ${await node.weights(server)}`,
    );
  }

  function server(protocol: "-t" | "-u", port: number): string {
    return (
      new RegExp(`^-A ${protocol} ${clusterIp}:${port} (.*?) *$`, "m").exec(
        shell("ipvsadm -Sn"),
      )?.[1] ?? ""
    );
  }

  async function hasServer(protocol: "-t" | "-u", port: number, wanted: string): Promise<void> {
    const isThere = async (): Promise<boolean> => server(protocol, port) === wanted;
    await until(isThere, patienceMs, async () => `${server(protocol, port)} instead of ${wanted}`);
  }

  async function open(): Promise<Connection> {
    const connection = await Connection.open(clusterIp, 80, "echo");
    connections.push(connection);
    await connection.name();
    return connection;
  }

  /** Opens this many connections and returns how many each pod got. */
  async function shareOf(
    count: number,
    address: string = clusterIp,
  ): Promise<Readonly<Record<string, number>>> {
    const shares: Record<string, number> = { "pod-1": 0, "pod-2": 0 };
    for (let turn = 0; turn < count; turn++) {
      const name = await askName(address, 80);
      shares[name] = (shares[name] ?? 0) + 1;
    }
    return shares;
  }

  function ignored(scheduler: string, reason: string): RegExp {
    return new RegExp(`"Ignoring annotation" .* value="${scheduler}" reason="${reason}"`);
  }

  // This test must run first, because the kernel counts closed connections until they time out.
  it("limit an endpoint's connections, and keep existing ones", async () => {
    const lives = [await open(), await open()];
    apply(web({ "max-connections": "2,1" }), ...slices);
    await until(
      async () => (await node.realServers(tcp)).every(({ limit }) => limit?.upper === 2),
      10_000,
      async () => node.program.output,
    );
    lives.push(await open(), await open());
    await assert.rejects(open(), /ECONNREFUSED/);
    for (const connection of lives) await connection.ping("full");
    apply(web({}), ...slices);
    await until(
      async () => (await node.realServers(tcp)).every(({ limit }) => limit === undefined),
      10_000,
      async () => node.program.output,
    );
    await open();
    for (const connection of lives) await connection.ping("free");
  });

  it("change and are removed while connections are open, and break none of them", async () => {
    const lives = [await open(), await open()];
    const steps: readonly (readonly [Annotations, string, string, RegExp?])[] = [
      [{ scheduler: "wlc", weights: "slice" }, "-s wlc", "pod-1 3, pod-2 1"],
      [{ scheduler: "sh", "scheduler-flags": "sh-port" }, "-s sh -b sh-port", "pod-1 1, pod-2 1"],
      [{ "max-connections": "1" }, "-s rr", "pod-1 1, pod-2 1"],
      [{ scheduler: "wrr", canary: "slice=web-2,share=0%" }, "-s wrr", "pod-1 1, pod-2 0"],
      [
        { scheduler: "no-such" },
        "-s rr",
        "pod-1 1, pod-2 1",
        ignored("no-such", "invalid-annotation"),
      ],
      [
        { scheduler: "missing" },
        "-s rr",
        "pod-1 1, pod-2 1",
        ignored("missing", "scheduler-not-allowed"),
      ],
      [{}, "-s rr", "pod-1 1, pod-2 1"],
    ];
    for (const [annotations, settings, weights, logged] of steps) {
      apply(web(annotations), ...slices);
      // If a step does not change the kernel, the log shows that the step was processed.
      if (logged) await node.program.prints(logged);
      await hasServer("-t", 80, settings);
      await node.hasWeights(tcp, weights);
      for (const connection of lives) await connection.ping(settings);
    }
    assert.deepEqual(await shareOf(4), { "pod-1": 2, "pod-2": 2 });
  });

  it("distribute new connections 3 to 1 according to weights", async () => {
    apply(web({ scheduler: "wrr", weights: "slice" }), ...slices);
    await hasServer("-t", 80, "-s wrr");
    await haveWeights("pod-1 3, pod-2 1");
    const { "pod-1": ofFirst = 0 } = await shareOf(80);
    assert.ok(ofFirst >= 58 && ofFirst <= 62, `${ofFirst} of 80`);
  });

  it("distribute new connections by Node labels, and follow a changed label", async () => {
    const nodes = (...weights: readonly string[]): readonly ApiObject[] =>
      [1, 2].map((number) => {
        const weight = weights[number - 1];
        return nodeObject({
          name: `node-${number}`,
          addresses: [`192.168.10.1${number}`],
          podCidrs: [`10.244.${number}.0/24`],
          labels: weight === undefined ? {} : { [weightLabel]: weight },
        });
      });
    const onNodes = [first, second].map(({ name, address }, index) =>
      endpointSlice({
        ...{ name, ports: slicePorts },
        endpoints: [endpoint(address, { nodeName: `node-${index + 1}` })],
      }),
    );
    const byNode = web({ scheduler: "wrr", weights: "node" });
    apply(byNode, ...nodes("3", "1"), ...onNodes);
    await hasServer("-t", 80, "-s wrr");
    await haveWeights("pod-1 3, pod-2 1");
    const lives = [await open(), await open()];
    const { "pod-1": ofFirst = 0 } = await shareOf(40);
    assert.ok(ofFirst >= 28 && ofFirst <= 32, `${ofFirst} of 40`);
    apply(byNode, ...nodes("1", "4"), ...onNodes);
    await haveWeights("pod-1 1, pod-2 4");
    for (const connection of lives) await connection.ping("another label");
    apply(byNode, ...nodes(), ...onNodes);
    await haveWeights("pod-1 1, pod-2 1");
    for (const connection of lives) await connection.ping("no label");
  });

  it("prefer this node's rack, overflow below the minimum, and follow labels without breaking connections", async () => {
    const nodesIn = (...racks: readonly string[]): readonly ApiObject[] =>
      racks.map((rack, index) =>
        nodeObject({
          name: `node-${index + 1}`,
          addresses: [`192.168.10.1${index + 1}`],
          podCidrs: [`10.244.${index + 1}.0/24`],
          labels: rack === "" ? {} : { [rackLabel]: rack },
        }),
      );
    const onNodes = [first, second].map(({ name, address }, index) =>
      endpointSlice({
        ...{ name, ports: slicePorts },
        endpoints: [endpoint(address, { nodeName: `node-${index + 2}` })],
      }),
    );
    const preferring = web({ "prefer-topology": `${rackLabel},minimum=70%` });
    const applyRacks = (...racks: readonly string[]): void =>
      apply(preferring, ...nodesIn(...racks), ...onNodes);
    const areShared = async (wanted: Readonly<Record<string, number>>): Promise<void> => {
      for (const address of Object.values(clusterIps))
        assert.deepEqual(await shareOf(6, address), wanted, address);
    };
    const pingAll = async (text: string): Promise<void> => {
      for (const connection of connections) await connection.ping(text);
    };
    // Two of three Nodes prefer one of two endpoints: 1/2 is more than 70% of 2/3.
    // Connections that earlier tests closed are still draining.
    applyRacks("a", "a", "b");
    await haveWeights("pod-1 1, pod-2 0");
    await areShared({ "pod-1": 6, "pod-2": 0 });
    await open();
    // 1/2 is less than 70% of 3/4.
    applyRacks("a", "a", "b", "a");
    await haveWeights("pod-1 1, pod-2 1");
    await areShared({ "pod-1": 3, "pod-2": 3 });
    await open();
    await open();
    applyRacks("b", "a", "b");
    await haveWeights("pod-1 0, pod-2 1");
    await areShared({ "pod-1": 0, "pod-2": 6 });
    await pingAll("moved to another rack");
    const { code, out, err } = kubeIpvs("plan", ...node.flags, ...flags);
    assert.equal(code, 0, out + err);
    applyRacks("", "a", "b");
    await haveWeights("pod-1 1, pod-2 1");
    applyRacks("", "", "");
    await node.program.prints(/"Ignoring annotation" .*"no Node has the label example.com\/rack"/);
    await pingAll("no rack");
  });

  it("give a canary its share", async () => {
    apply(web({ scheduler: "wrr", canary: "slice=web-2,share=10%" }), ...slices);
    await node.hasWeights(tcp, "pod-1 9, pod-2 1");
    const { "pod-2": ofCanary = 0 } = await shareOf(40);
    assert.ok(ofCanary >= 3 && ofCanary <= 5, `${ofCanary} of 40`);
  });

  it("increase the weight of a new endpoint gradually, even across a restart", async () => {
    const slow = web({ scheduler: "wrr", "slow-start": "5s" });
    apply(slow, slices[0] as ApiObject);
    // IPVS remembers closed connections.
    await haveWeights("pod-1 10, pod-2 0");
    apply(slow, ...slices);
    await haveWeights("pod-1 10, pod-2 1");
    const { "pod-2": early = 0 } = await shareOf(11);
    assert.ok(early <= 4, `${early} of 11`);
    await node.stop();
    await node.start(flags);
    const resumed = Number((await node.weights(tcp)).split(" ").at(-1));
    assert.ok(resumed > 1 && resumed <= 10, `weight ${resumed}`);
    await haveWeights("pod-1 10, pod-2 10");
    assert.deepEqual(await shareOf(8), { "pod-1": 4, "pod-2": 4 });
  });

  it("increase a weight exactly as a newly started daemon would, so that it would plan no change", async () => {
    const slow = web({ scheduler: "wrr", "slow-start": "10h" });
    apply(slow, slices[0] as ApiObject);
    await haveWeights("pod-1 10, pod-2 0");
    apply(slow, ...slices);
    await haveWeights("pod-1 10, pod-2 1");
    const { code, out, err } = kubeIpvs("plan", ...node.flags, ...flags);
    assert.equal(code, 0, out + err);
  });

  it("end drains at the Service's own deadline, including drains in progress", async () => {
    apply(web({}), ...slices);
    await haveWeights("pod-1 1, pod-2 1");
    let connection = await open();
    if ((await connection.name()) !== first.name) connection = await open();
    apply(web({}), slices[1] as ApiObject);
    await haveWeights("pod-1 0, pod-2 1");
    await connection.ping("until 15 minutes have passed");
    apply(web({ "drain-deadline": "3s" }), slices[1] as ApiObject);
    await node.program.prints(/"Real server drain ended" .* reason="deadline" elapsedSeconds=\d+/);
    assert.equal(await node.weights(tcp), "pod-2 1");
    connection.write("into the void");
    assert.match(await connection.ends(), /ECONNRESET|ECONNREFUSED/);
    assert.equal(await askName(clusterIp, 80), "pod-2");
  });

  /** Number of datagrams that each pod has received so far. */
  function received(): readonly number[] {
    return [first, second].map(({ name }) => {
      const lines = shell(`ip netns exec ${name} grep ^Udp: /proc/net/snmp`).split("\n");
      return Number(lines[1]?.split(" ")[1]);
    });
  }

  /** Sends this many datagrams from one client port, and counts those that reach each pod. */
  function spread(source: string, port: number, count: number): readonly number[] {
    const before = received();
    const script = `
      const socket = require("node:dgram").createSocket("udp4");
      const pause = () => new Promise((resolve) => setTimeout(resolve, 20));
      socket.bind(${port}, "${source}", async () => {
        for (let turn = 0; turn < ${count}; turn++) {
          socket.send("1", 53, "${clusterIp}");
          await pause();
        }
        socket.close();
      });`;
    shell(`ip netns exec client ${process.execPath} -e '${script}'`);
    return received().map((now, index) => now - (before[index] ?? 0));
  }

  it("schedule each datagram separately", async () => {
    const insider = "10.244.9.1";
    shell(`
      ip -n client addr add ${insider}/32 dev lo
      ip -n node route add ${insider} via ${clientAddress}
    `);
    apply(web({}), ...slices);
    await hasServer("-u", 53, "-s rr");
    assert.deepEqual(spread(insider, 4000, 6).toSorted(), [0, 6], "one flow, one pod");
    apply(web({ "one-packet": "true" }), ...slices);
    await hasServer("-u", 53, "-s rr -o");
    assert.deepEqual(spread(insider, 4001, 6), [3, 3]);
    // Masquerading is bound to the first datagram's link.
    assert.deepEqual(
      spread(clientAddress, 4002, 6).toSorted(),
      [0, 3],
      "masqueraded, a link for each pod",
    );
  });
});
