/**
 * Tunnel forwarding between nodes, with real packets of both IP families. The client sends packets for the load-balancer
 * IP to a node without endpoints. The nodes and their pods are network namespaces:
 *
 *     client 192.168.10.1 ── bridge ── 192.168.10.1N node-N ── pods-N with 10.244.N.10 and 10.244.N.20
 */
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import type { Explanation } from "../../src/answer/explanation.ts";
import { type IpFamily, ipFamilies } from "../../src/base/ip.ts";
import { parseJson } from "../../src/base/parse-json.ts";
import { until } from "../support/lab-node.ts";
import {
  createNetworkNamespace,
  enterNetworkNamespace,
  leaveNetworkNamespace,
  removeNetworkNamespace,
  shell,
} from "../support/netns/network-namespace.ts";
import { type ApiObject, endpoint, endpointSlice, node, service } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { Program } from "../support/program.ts";
import { flushChain, rulesFlags } from "../support/rules-writer.ts";
import { program } from "../support/run-kube-ipvs.ts";

/** The client's packets enter at the first two nodes. The others have endpoints. */
const edges = [1, 2] as const;
const workers = [3, 4] as const;
const numbers = [...edges, ...workers];
/** How long a client waits for the next packet of an answer, and for the whole answer. */
const answerMs = 30_000;
const wholeAnswerMs = 60_000;
/** How long a client waits if no answer is expected. */
const noAnswerMs = 3_000;
const port = 80;
const nodePort = 30_080;
const restrictedNodePort = 30_081;
const localNodePort = 30_082;
const podPort = 8080;

const addressOf: Readonly<Record<IpFamily, (number: number) => string>> = {
  IPv4: (number) => `192.168.10.1${number}`,
  IPv6: (number) => `fd00:10::1${number}`,
};
const podsOf: Readonly<Record<IpFamily, (number: number) => readonly string[]>> = {
  IPv4: (number) => [`10.244.${number}.10`, `10.244.${number}.20`],
  IPv6: (number) => [`fd00:244:${number}::10`, `fd00:244:${number}::20`],
};
const client: Readonly<Record<IpFamily, string>> = { IPv4: "192.168.10.1", IPv6: "fd00:10::1" };
/** Client addresses outside the source ranges. */
const stranger: Readonly<Record<IpFamily, string>> = { IPv4: "192.168.10.2", IPv6: "fd00:10::2" };
const balancer = { IPv4: "203.0.113.7", IPv6: "2001:db8:203::7" };
const restricted = { IPv4: "203.0.113.8", IPv6: "2001:db8:203::8" };
const tunnelNames = { IPv4: "kube-ipvs-ipip", IPv6: "kube-ipvs-ip6" };

const removeLinks = "ip link delete kube-ipvs-ipip; ip link delete kube-ipvs-ip6";

const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-tunnel-"));
const annotations = { "kube-ipvs.io/forwarding": "tunnel", "kube-ipvs.io/scheduler": "mh" };

function web(options: {
  readonly name: string;
  readonly clusterIps: readonly string[];
  readonly nodePort: number;
  readonly ips: Readonly<Partial<Record<IpFamily, string>>>;
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly annotations?: Readonly<Record<string, string>>;
}): ApiObject {
  const { name, clusterIps, ips, spec = {} } = options;
  const ingress = ipFamilies.flatMap((family) =>
    ips[family] === undefined ? [] : [{ ip: ips[family] }],
  );
  return service({
    ...{ name, clusterIps, type: "LoadBalancer" },
    metadata: { annotations: options.annotations ?? annotations },
    ports: ["TCP", "UDP"].map((protocol) => ({
      ...{ name: protocol.toLowerCase(), protocol, port, targetPort: podPort },
      nodePort: options.nodePort,
    })),
    spec,
    status: { loadBalancer: { ingress } },
  });
}

function slicesOf(name: string, onNodes: readonly number[]): readonly ApiObject[] {
  return ipFamilies.map((family) =>
    endpointSlice({
      name: `${name}-${family.toLowerCase()}`,
      service: name,
      endpoints: onNodes.flatMap((number) =>
        podsOf[family](number).map((ip) => endpoint(ip, { nodeName: `node-${number}` })),
      ),
      ports: ["TCP", "UDP"].map((protocol) => ({
        ...{ name: protocol.toLowerCase(), protocol, port: podPort },
      })),
    }),
  );
}

const sourceRanges = Object.values(client).map((ip) => `${ip}/${ip.includes(":") ? 128 : 32}`);

/** Writes the manifests that all nodes read. */
function apply(ofWeb: Readonly<Record<string, string>> = annotations, spec = {}): void {
  const objects = [
    web({
      name: "web",
      clusterIps: ["10.96.0.10", "fd00:96::a"],
      nodePort,
      ips: balancer,
      annotations: ofWeb,
      spec,
    }),
    web({
      ...{ name: "restricted", clusterIps: ["10.96.0.11", "fd00:96::b"], ips: restricted },
      nodePort: restrictedNodePort,
      spec: { loadBalancerSourceRanges: sourceRanges },
    }),
    web({
      ...{ name: "local", clusterIps: ["10.96.0.12", "fd00:96::c"], ips: {} },
      nodePort: localNodePort,
      spec: { externalTrafficPolicy: "Local" },
    }),
    ...slicesOf("web", workers),
    ...slicesOf("restricted", workers),
    ...slicesOf("local", [3]),
    ...[...numbers, 5].map((number) =>
      node({
        name: `node-${number}`,
        addresses: ipFamilies.map((family) => addressOf[family](number)),
        podCidrs: [`10.244.${number}.0/24`, `fd00:244:${number}::/64`],
      }),
    ),
  ];
  const path = join(folder, "objects.yaml");
  writeFileSync(`${path}.new`, objects.map((object) => JSON.stringify(object)).join("\n---\n"));
  renameSync(`${path}.new`, path);
}

class TunnelNode {
  readonly name: string;
  readonly number: number;
  program: Program | undefined;

  constructor(number: number) {
    this.number = number;
    this.name = `node-${number}`;
  }

  build(): void {
    const { name, number } = this;
    const pods = `pods-${number}`;
    createNetworkNamespace(name);
    createNetworkNamespace(pods);
    shell(`
      ip -n ${name} link set lo up
      ip -n ${pods} link set lo up
      ip -n client link add port${number} type veth peer name eth0 netns ${name}
      ip -n client link set port${number} master br0 up
      ip -n ${name} address add ${addressOf.IPv4(number)}/24 dev eth0
      ip -n ${name} address add ${addressOf.IPv6(number)}/64 dev eth0 nodad
      ip -n ${name} link set eth0 up
      ip -n ${name} link add cni0 type veth peer name eth0 netns ${pods}
      ip -n ${name} address add 10.244.${number}.1/24 dev cni0
      ip -n ${name} address add fd00:244:${number}::1/64 dev cni0 nodad
      ip -n ${name} link set cni0 up
      ${podsOf
        .IPv4(number)
        .map((ip) => `ip -n ${pods} address add ${ip}/24 dev eth0`)
        .join("\n")}
      ${podsOf
        .IPv6(number)
        .map((ip) => `ip -n ${pods} address add ${ip}/64 dev eth0 nodad`)
        .join("\n")}
      ip -n ${pods} link set eth0 up
      ip -n ${pods} route add default via 10.244.${number}.1
      ip -n ${pods} -6 route add default via fd00:244:${number}::1
      ip -n ${name} route add default via ${client.IPv4}
      ip -n ${name} -6 route add default via ${client.IPv6}
      ip netns exec ${name} sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=1
      ${numbers
        .filter((other) => other !== number)
        .map(
          (other) => `ip -n ${name} route add 10.244.${other}.0/24 via ${addressOf.IPv4(other)}
      ip -n ${name} -6 route add fd00:244:${other}::/64 via ${addressOf.IPv6(other)}`,
        )
        .join("\n")}
    `);
  }

  args(...more: readonly string[]): readonly string[] {
    return [
      `--hostname-override=${this.name}`,
      `--kube-ipvs-lock-name=${this.name}`,
      `--manifests=${folder}`,
      "--proxy-mode=ipvs",
      "--cluster-cidr=10.244.0.0/16,fd00:244::/32",
      "--conntrack-max-per-core=0",
      `--kube-ipvs-state-file=${join(folder, `${this.name}.state`)}`,
      "--kube-ipvs-claims-file=",
      "--kube-ipvs-port-range-marks=0x3fff0000",
      "--kube-ipvs-strict-source-ranges",
      ...rulesFlags,
      ...more,
    ];
  }

  async start(...more: readonly string[]): Promise<void> {
    const flags = more.length === 0 ? ["--kube-ipvs-tunnel-forwarding"] : more;
    this.program = new Program(this.args(...flags), ["ip", "netns", "exec", this.name]);
    await this.program.prints(/First sync completed/);
  }

  async stop(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    this.program?.kill(signal);
    await this.program?.ends();
    this.program = undefined;
  }

  shell(script: string): string {
    return shell(`timeout 60 ip netns exec ${this.name} sh -ec '${script}'`);
  }

  get hasTunnels(): boolean {
    const links = this.shell("ip -br link");
    return Object.values(tunnelNames).some((name) => links.includes(name));
  }

  /** The routing rules for tunnels and their routes. */
  get routing(): string {
    return this.shell(`
      ip rule | grep kube-ipvs || true; ip -6 rule | grep kube-ipvs || true
      ip route show table 75075 2> /dev/null || true; ip -6 route show table 75075 2> /dev/null || true
    `).trim();
  }

  /** Number of packets that arrived through tunnels. */
  get receivedPackets(): number {
    const links = this.shell("ip -s -j link show kube-ipvs-ipip; ip -s -j link show kube-ipvs-ip6");
    const counts = [...links.matchAll(/"rx":\{"bytes":\d+,"packets":(\d+)/g)];
    return counts.reduce((sum, [, count]) => sum + Number(count), 0);
  }

  get rules(): string {
    const list =
      rulesFlags.length > 0 ? "nft -s list ruleset" : "iptables-save; ip6tables-save; ipset save";
    return this.shell(list);
  }
}

/** Opens sockets in a namespace. No other code may open sockets at the same time. */
async function openIn<T>(namespace: string, body: () => Promise<T>): Promise<T> {
  enterNetworkNamespace(namespace);
  try {
    return await body();
  } finally {
    leaveNetworkNamespace();
  }
}

/**
 * All TCP connections. They are closed at the end, because a connection whose peer is gone, or that a failed test left
 * open, would keep this process running.
 */
const sockets = new Set<Socket>();

/** Answers with the node and the client's address, over UDP and TCP. TCP connections echo further data. */
async function listen(number: number): Promise<void> {
  const plain = (address: string | undefined): string => (address ?? "").replace("::ffff:", "");
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.write(`node-${number} ${plain(socket.remoteAddress)}\n`);
    socket.on("data", (data) => (String(data) === "bye" ? socket.end() : socket.write(data)));
  });
  await openIn(`pods-${number}`, async () => {
    server.listen(podPort);
    await once(server, "listening");
    // A socket for all addresses would answer from the first one.
    for (const ip of ipFamilies.flatMap((family) => podsOf[family](number))) {
      const datagrams = createSocket(ip.includes(":") ? "udp6" : "udp4");
      datagrams.on("message", (_, { address, port: from }) => {
        datagrams.send(`node-${number} ${plain(address)}`, from, address);
      });
      datagrams.bind(podPort, ip);
      await once(datagrams, "listening");
      datagrams.unref();
    }
  });
  server.unref();
}

interface Origin {
  readonly namespace?: string;
  readonly source?: string;
  readonly limitMs?: number;
  readonly port?: number;
}

async function open(
  address: string,
  { namespace = "client", source, limitMs = answerMs, port: to = port }: Origin = {},
): Promise<Socket> {
  return openIn(namespace, async () => {
    const local = source === undefined ? {} : { localAddress: source };
    const socket = connect({ host: address, port: to, ...local });
    sockets.add(socket);
    socket.setTimeout(limitMs, () => socket.destroy(new Error(`no packet for ${limitMs} ms`)));
    await once(socket, "connect");
    return socket;
  });
}

/** Connects and returns what the pod sends, or `nobody`. */
async function ask(address: string, origin: Origin = {}): Promise<string> {
  const socket = await open(address, origin).catch(() => undefined);
  if (socket === undefined) return "nobody";
  const timer = setTimeout(
    () => socket.destroy(new Error(`no whole answer for ${wholeAnswerMs} ms`)),
    wholeAnswerMs,
  );
  socket.write("bye");
  const answer = await text(socket).catch(() => "nobody");
  clearTimeout(timer);
  return answer.split("\n")[0] ?? "";
}

async function askUdp(address: string, to = port): Promise<string> {
  const socket = createSocket(address.includes(":") ? "udp6" : "udp4");
  const answer = openIn("client", async () => {
    socket.on("error", () => {});
    socket.bind(0);
    await once(socket, "listening");
    socket.connect(to, address);
    await once(socket, "connect");
    socket.send("?");
    return once(socket, "message", { signal: AbortSignal.timeout(answerMs) }).then(
      ([message]) => String(message),
      () => "nobody",
    );
  });
  return answer.finally(() => socket.close());
}

/** A connection that stays open while the cluster changes. */
class LongConnection {
  readonly #socket: Socket;
  #received = "";
  #onData = (): void => {};
  ending = "";

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setTimeout(0);
    socket.on("data", (data: Buffer) => {
      this.#received += data.toString("latin1");
      this.#onData();
    });
    socket.on("error", (error: NodeJS.ErrnoException) => {
      this.ending = error.code ?? error.message;
      this.#onData();
    });
  }

  static async open(address: string, to = port): Promise<LongConnection> {
    const connection = new LongConnection(await open(address, { port: to }));
    await connection.has("\n");
    return connection;
  }

  /** The node that answers. */
  get node(): string {
    return this.#received.split(" ")[0] ?? "";
  }

  /** Sends a text and waits until it comes back. */
  async echoes(sent: string): Promise<void> {
    this.#received = "";
    this.#socket.write(sent);
    await this.has(sent);
  }

  close(): void {
    this.#socket.destroy();
  }

  async has(wanted: string): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(
      () => reject(new Error(`The connection is broken: no answer for ${wholeAnswerMs} ms`)),
      wholeAnswerMs,
    );
    this.#onData = () => {
      if (this.ending !== "") reject(new Error(`The connection is broken: ${this.ending}`));
      else if (this.#received.includes(wanted)) resolve();
    };
    this.#onData();
    await promise.finally(() => clearTimeout(timer));
  }
}

async function openMany(count: number): Promise<readonly LongConnection[]> {
  const connections: LongConnection[] = [];
  for (const family of ipFamilies) {
    for (let each = 0; each < count; each += 1)
      connections.push(await LongConnection.open(balancer[family]));
  }
  return connections;
}

/** The same, to the node ports of the first node. */
async function openManyAtNodePorts(count: number): Promise<readonly LongConnection[]> {
  const connections: LongConnection[] = [];
  for (const family of ipFamilies) {
    for (let each = 0; each < count; each += 1)
      connections.push(await LongConnection.open(addressOf[family](edges[0]), nodePort));
  }
  return connections;
}

/** Moves the load-balancer IPs to a node, as an announcer does. */
function moveTo(number: number): void {
  shell(
    ipFamilies
      .flatMap((family) =>
        [balancer[family], restricted[family]].map(
          (ip) =>
            `ip -n client ${family === "IPv6" ? "-6" : ""} route replace ${ip} via ${addressOf[family](number)} src ${client[family]}`,
        ),
      )
      .join("\n"),
  );
}

describe("tunnel forwarding", () => {
  const nodes = numbers.map((number) => new TunnelNode(number));
  const [edge, otherEdge, worker] = nodes as [TunnelNode, TunnelNode, TunnelNode];
  const state = (): string =>
    nodes
      .map((one) =>
        [
          one.name,
          one.shell(
            `ipvsadm -Sn | grep -A4 "^-A -f" || true; ipvsadm -Lnc; ip -s link | grep -A6 kube-ipvs-ip || true; nstat -as | grep -v " 0 " || true`,
          ),
          rulesFlags.length > 0 ? one.rules : one.shell("iptables -t mangle -vnL; iptables -vnL"),
          one.program?.output.split("\n").slice(-8).join("\n"),
        ].join("\n"),
      )
      .join("\n\n");

  async function becomes(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
    await until(
      async () => condition(),
      patienceMs,
      async () => `${what}\n${state()}`,
    );
  }

  before(async () => {
    createNetworkNamespace("client");
    shell(`
      ip -n client link set lo up
      ip -n client link add br0 type bridge
      ip -n client link set br0 up
      ip -n client address add ${client.IPv4}/24 dev br0
      ip -n client address add ${stranger.IPv4}/24 dev br0
      ip -n client address add ${client.IPv6}/64 dev br0 nodad
      ip -n client address add ${stranger.IPv6}/64 dev br0 nodad preferred_lft 0
    `);
    // A Node without kube-ipvs, which can send any packets.
    createNetworkNamespace("sender");
    shell(`
      ip -n client link add sender type veth peer name eth0 netns sender
      ip -n client link set sender master br0 up
      ip -n sender link set eth0 up
      ip -n sender link set lo up
      ip -n sender address add ${addressOf.IPv4(5)}/24 dev eth0
      ip -n sender address add ${addressOf.IPv6(5)}/64 dev eth0 nodad
      ip -n sender address add 192.168.10.25/24 dev eth0
      ip -n sender address add fd00:10::25/64 dev eth0 nodad
      ip netns exec sender sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth0.rp_filter=0
    `);
    for (const one of nodes) one.build();
    for (const number of numbers) await listen(number);
    apply();
    moveTo(edge.number);
    for (const one of nodes) await one.start();
    for (const one of nodes)
      await becomes(`${one.name} has links`, () =>
        one.shell("ip -br link").includes(tunnelNames.IPv6),
      );
  });

  after(async () => {
    for (const socket of sockets) socket.destroy();
    for (const one of nodes) await one.stop("SIGKILL");
    for (const one of numbers) removeNetworkNamespace(`node-${one}`);
    for (const one of numbers) removeNetworkNamespace(`pods-${one}`);
    for (const name of ["client", "sender"]) removeNetworkNamespace(name);
    rmSync(folder, { recursive: true });
  });

  /** Does not read the state of all nodes unless the answer is wrong. */
  function isAnswer(answer: string, pattern: RegExp): void {
    if (!pattern.test(answer)) assert.fail(`${answer} does not match ${pattern}\n${state()}`);
  }

  async function expectTunneled(): Promise<void> {
    for (const family of ipFamilies)
      isAnswer(await ask(balancer[family]), new RegExp(` ${client[family]}$`));
  }

  async function isTunneled(): Promise<boolean> {
    for (const family of ipFamilies)
      if (!(await ask(balancer[family])).endsWith(` ${client[family]}`)) return false;
    return true;
  }

  /** A node may stop accepting tunneled packets before another one stops sending them. */
  async function becomesMasqueraded(address: string, to = port): Promise<void> {
    let answer = "";
    const pattern = new RegExp(`^node-[34] (?!(?:${Object.values(client).join("|")})$)`);
    const isMasqueraded = async (): Promise<boolean> => {
      answer = await ask(address, { port: to });
      return pattern.test(answer);
    };
    await until(
      isMasqueraded,
      patienceMs,
      async () => `${answer} at ${address}, not masqueraded\n${state()}`,
    );
  }

  it("shows endpoints on other nodes the client's address", async () => {
    for (const family of ipFamilies) {
      const answers = new Set<string>();
      // The scheduler hashes the client's port, so ten requests may reach the same endpoint.
      for (let time = 0; time < 10 || (answers.size < 2 && time < 50); time += 1) {
        const answer = await ask(balancer[family]);
        isAnswer(answer, new RegExp(`^node-[34] ${client[family]}$`));
        answers.add(answer.split(" ")[0] ?? "");
        const overUdp = await askUdp(balancer[family]);
        isAnswer(overUdp, new RegExp(`^node-[34] ${client[family]}$`));
      }
      assert.deepEqual([...answers].sort(), ["node-3", "node-4"]);
    }
  });

  it("also serves through a node with endpoints of its own", async () => {
    moveTo(worker.number);
    for (const family of ipFamilies) {
      const answers = new Set<string>();
      for (let time = 0; time < 20; time += 1) {
        const answer = await ask(balancer[family]);
        isAnswer(answer, new RegExp(`^node-[34] ${client[family]}$`));
        answers.add(answer.split(" ")[0] ?? "");
      }
      assert.deepEqual([...answers].sort(), ["node-3", "node-4"]);
    }
    moveTo(edge.number);
  });

  it("serves the first node's processes and pods without a tunnel", async () => {
    for (const family of ipFamilies) {
      isAnswer(await ask(balancer[family], { namespace: edge.name }), /^node-[34] /);
      isAnswer(await ask(balancer[family], { namespace: "pods-1" }), /^node-[34] /);
    }
  });

  it("shows endpoints on other nodes the client's address at node ports", async () => {
    for (const family of ipFamilies) {
      for (const entry of [edge.number, worker.number]) {
        const answers = new Set<string>();
        const address = addressOf[family](entry);
        for (let time = 0; time < 20; time += 1) {
          const answer = await ask(address, { port: nodePort });
          isAnswer(answer, new RegExp(`^node-[34] ${client[family]}$`));
          answers.add(answer.split(" ")[0] ?? "");
          const overUdp = await askUdp(address, nodePort);
          isAnswer(overUdp, new RegExp(`^node-[34] ${client[family]}$`));
        }
        assert.deepEqual([...answers].sort(), ["node-3", "node-4"]);
      }
    }
  });

  it("uses no tunnel for node ports if the client is a Node or pod, or at other addresses of the node", async () => {
    for (const family of ipFamilies) {
      const address = addressOf[family](edge.number);
      // A worker may be chosen for its own packets, so all of its attempts must succeed.
      for (const namespace of [edge.name, otherEdge.name, worker.name, "pods-1", "pods-3"]) {
        for (let time = 0; time < 6; time += 1)
          isAnswer(await ask(address, { namespace, port: nodePort }), /^node-[34] /);
      }
      const ofPods = family === "IPv4" ? "10.244.1.1" : "fd00:244:1::1";
      isAnswer(await ask(ofPods, { namespace: "pods-1", port: nodePort }), /^node-[34] /);
    }
  });

  it("leaves node ports with policy Local to the nodes with endpoints", async () => {
    for (const family of ipFamilies) {
      const direct = await ask(addressOf[family](worker.number), { port: localNodePort });
      isAnswer(direct, new RegExp(`^node-3 ${client[family]}$`));
      const limited = { port: localNodePort, limitMs: noAnswerMs };
      assert.equal(await ask(addressOf[family](edge.number), limited), "nobody");
    }
  });

  it("transfers packets that fill the network's MTU", async () => {
    for (const connection of [...(await openMany(1)), ...(await openManyAtNodePorts(1))]) {
      await connection.echoes("x".repeat(200_000));
      connection.close();
    }
  });

  it("accepts tunneled packets only from Nodes, and only to ports with tunnel forwarding", async () => {
    const tunnelTo = (source: Readonly<Record<IpFamily, string>>): void => {
      shell(`
        ip -n sender link delete probe 2> /dev/null || true
        ip -n sender link delete probe6 2> /dev/null || true
        ip -n sender link add probe type ipip local ${source.IPv4} remote ${addressOf.IPv4(3)}
        ip -n sender link add probe6 type ip6tnl mode ip6ip6 encaplimit none local ${source.IPv6} remote ${addressOf.IPv6(3)}
        ip -n sender link set probe up
        ip -n sender link set probe6 up
        ip -n sender route replace ${balancer.IPv4} dev probe src ${source.IPv4}
        ip -n sender route replace ${restricted.IPv4} dev probe src ${source.IPv4}
        ip -n sender route replace 198.51.100.3 dev probe src ${source.IPv4}
        ip -n sender -6 route replace ${balancer.IPv6} dev probe6 src ${source.IPv6}
        ip -n sender -6 route replace ${restricted.IPv6} dev probe6 src ${source.IPv6}
        ip -n sender -6 route replace 2001:db8:198::3 dev probe6 src ${source.IPv6}
        ip -n sender route replace ${addressOf.IPv4(1)} dev probe src ${source.IPv4}
        ip -n sender -6 route replace ${addressOf.IPv6(1)} dev probe6 src ${source.IPv6}
      `);
    };
    // Addresses of the node on port 80, where a process listens.
    worker.shell(
      "ip address add 198.51.100.3/32 dev lo; ip address add 2001:db8:198::3/128 dev lo",
    );
    const server = createServer((socket) => socket.end("process"));
    await openIn(worker.name, async () => {
      server.listen(port, "198.51.100.3");
      await once(server, "listening");
    });
    const other = createServer((socket) => socket.end("process"));
    await openIn(worker.name, async () => {
      other.listen(port, "2001:db8:198::3");
      await once(other, "listening");
    });
    // A process that listens on all addresses, on a port that no Service has.
    const closedPort = 30_099;
    const third = createServer((socket) => socket.end("process"));
    await openIn(worker.name, async () => {
      third.listen(closedPort);
      await once(third, "listening");
    });
    const from = { namespace: "sender" };
    const blocked = { ...from, limitMs: noAnswerMs };
    const asNode = { IPv4: addressOf.IPv4(5), IPv6: addressOf.IPv6(5) };
    tunnelTo(asNode);
    for (const family of ipFamilies) {
      assert.equal(await ask(balancer[family], from), `node-3 ${asNode[family]}`);
      // The sender is not in the source ranges.
      assert.equal(await ask(restricted[family], blocked), "nobody");
      assert.equal(
        await ask(family === "IPv4" ? "198.51.100.3" : "2001:db8:198::3", blocked),
        "nobody",
      );
      const address = addressOf[family](1);
      const atNodePort = await ask(address, { ...from, port: nodePort });
      assert.equal(atNodePort, `node-3 ${asNode[family]}`);
      for (const to of [restrictedNodePort, localNodePort, closedPort])
        assert.equal(await ask(address, { ...blocked, port: to }), "nobody");
    }
    tunnelTo({ IPv4: "192.168.10.25", IPv6: "fd00:10::25" });
    for (const family of ipFamilies) {
      assert.equal(await ask(balancer[family], blocked), "nobody");
      const atNodePort = { ...blocked, port: nodePort };
      assert.equal(await ask(addressOf[family](1), atNodePort), "nobody");
    }
    for (const one of [server, other, third]) one.close();
    // Only its addresses are used from here on.
    shell("ip -n sender link delete probe; ip -n sender link delete probe6");
  });

  it("does not forward tunneled packets from pods", async () => {
    const received = (): string =>
      worker.shell("ip -s link show kube-ipvs-ipip; ip -s link show kube-ipvs-ip6");
    shell(`
      ip -n pods-1 link add probe type ipip local 10.244.1.10 remote ${addressOf.IPv4(3)}
      ip -n pods-1 link add probe6 type ip6tnl mode ip6ip6 encaplimit none local fd00:244:1::10 remote ${addressOf.IPv6(3)}
      ip -n pods-1 link set probe up
      ip -n pods-1 link set probe6 up
      ip -n pods-1 route replace ${balancer.IPv4} dev probe
      ip -n pods-1 -6 route replace ${balancer.IPv6} dev probe6
    `);
    const before = received();
    for (const family of ipFamilies)
      assert.equal(
        await ask(balancer[family], { namespace: "pods-1", limitMs: noAnswerMs }),
        "nobody",
      );
    assert.equal(received(), before);
    shell("ip -n pods-1 link delete probe; ip -n pods-1 link delete probe6");
  });

  it("applies source ranges", async () => {
    for (const family of ipFamilies) {
      isAnswer(await ask(restricted[family]), new RegExp(`^node-[34] ${client[family]}$`));
      const blocked = { source: stranger[family], limitMs: noAnswerMs };
      assert.equal(await ask(restricted[family], blocked), "nobody");
      const at = { port: restrictedNodePort };
      const address = addressOf[family](edge.number);
      isAnswer(await ask(address, at), new RegExp(`^node-[34] ${client[family]}$`));
      assert.equal(await ask(address, { ...blocked, ...at }), "nobody");
    }
  });

  it("keeps connections when the load-balancer IP moves to another node", async () => {
    const connections = await openMany(10);
    for (const [index, connection] of connections.entries())
      await connection.echoes(`${index} before`);
    for (const { number } of [otherEdge, edge]) {
      moveTo(number);
      for (const [index, connection] of connections.entries())
        await connection.echoes(`${index} through node-${number}`);
      await expectTunneled();
    }
    for (const connection of connections) connection.close();
  });

  it("keeps connections when the programs are killed and started again", async () => {
    const connections = [...(await openMany(3)), ...(await openManyAtNodePorts(3))];
    for (const one of [edge, worker, otherEdge]) {
      await one.stop("SIGKILL");
      for (const connection of connections) await connection.echoes(`${one.name} is stopped`);
      await expectTunneled();
      await one.start();
      for (const connection of connections) await connection.echoes(`${one.name} runs again`);
    }
    await expectTunneled();
    for (const connection of connections) connection.close();
  });

  it("never forwards a tunneled packet, not even without the routing rule", async () => {
    const onWorkers = nodes.slice(2);
    const received = (): number => onWorkers.reduce((sum, one) => sum + one.receivedPackets, 0);
    const askNode = (family: IpFamily): Promise<string> =>
      ask(addressOf[family](edge.number), { port: nodePort, limitMs: noAnswerMs });
    for (const one of onWorkers) {
      await one.stop("SIGKILL");
      one.shell("ip rule del pref 75; ip -6 rule del pref 75");
    }
    const flags = [
      `--kube-ipvs-lock-name=${worker.name} --kube-ipvs-tunnel-forwarding`,
      ...rulesFlags,
    ].join(" ");
    assert.match(
      worker.shell(`${program} doctor ${flags} || true`),
      /fail +tunnel-forwarding +packets to node ports that arrive through kube-ipvs-ipip and kube-ipvs-ip6/,
    );
    for (const family of ipFamilies) {
      const before = received();
      assert.equal(await askNode(family), "nobody");
      const sent = received() - before;
      assert.ok(sent >= 1 && sent < 8, `${sent} packets`);
    }
    // Without the restriction, the same packets return to the first node, which balances them again.
    for (const one of onWorkers) one.shell(flushChain("filter", "KUBE-IPVS-TUNNEL-FWD"));
    for (const family of ipFamilies) isAnswer(await askNode(family), /^node-[34] /);
    for (const one of onWorkers) await one.start();
    for (const family of ipFamilies)
      await becomes(`the node port is tunneled, ${family}`, async () => {
        const answer = await ask(addressOf[family](edge.number), { port: nodePort });
        return answer.endsWith(` ${client[family]}`);
      });
  });

  it("creates the routing rule and its route again if other software removes them", async () => {
    worker.shell("ip rule del pref 75; ip -6 rule del pref 75");
    worker.shell("ip route flush table 75075; ip -6 route flush table 75075");
    assert.equal(worker.routing, "");
    await becomes("the rules and routes exist", () => worker.routing.split("\n").length === 4);
  });

  it("masquerades as usual while another link receives all tunneled packets", async () => {
    edge.shell("ip link set tunl0 up");
    await becomesMasqueraded(balancer.IPv4);
    await becomes("the links are removed", () => !edge.hasTunnels);
    edge.shell("ip link set tunl0 down");
    await becomes("connections are tunneled", isTunneled);
    await becomes("the links exist", () => edge.hasTunnels);
  });

  it("is shown by `services`, `explain`, `plan` and `doctor` without differences", () => {
    const run = (one: TunnelNode, ...args: readonly string[]): string =>
      one.shell(`${program} ${args.join(" ")} --kube-ipvs-lock-name=${one.name} || true`);
    assert.match(run(edge, "services"), /203\.0\.113\.7:80.* tunnels to 2 nodes/);
    assert.match(run(edge, "services"), /192\.168\.10\.11:30080.* tunnels to 2 nodes/);
    assert.match(run(worker, "services"), /203\.0\.113\.7:80.* tunnels to 1 node\b/);
    for (const family of ipFamilies) {
      const name = family === "IPv4" ? balancer[family] : `[${balancer[family]}]`;
      const explain = (one: TunnelNode, ...more: readonly string[]): Explanation => {
        const text = run(one, "explain", `${name}:80`, ...more, "-o", "json");
        const [explanation] = (parseJson(text) as { items: readonly Explanation[] }).items;
        assert.ok(explanation !== undefined, text);
        assert.deepEqual(explanation.differences, []);
        return explanation;
      };
      const from = ["--from", client[family]];
      const nodes = [3, 4].map((number) => addressOf[family](number)).join(", ");
      const sent = explain(edge, ...from);
      assert.equal(sent.verdict, "balanced");
      assert.ok(
        sent.summary.includes(`are tunneled to 2 nodes (${nodes}), not masq`),
        sent.summary,
      );
      const received = explain(worker, ...from, "--in", tunnelNames[family]);
      assert.match(received.summary, /are balanced over 2 of \d endpoints and not masqueraded$/);
      assert.deepEqual(
        received.packets
          .flatMap(({ deliveries }) => deliveries.flatMap((one) => one.realServers))
          .sort(),
        podsOf[family](3).map((ip) => (family === "IPv4" ? `${ip}:8080` : `[${ip}]:8080`)),
      );
      const hostPort = (address: string): string =>
        `${family === "IPv4" ? address : `[${address}]`}:${nodePort}`;
      const explainNodePort = (one: TunnelNode, ...more: readonly string[]): Explanation => {
        const text = run(
          one,
          "explain",
          hostPort(addressOf[family](1)),
          ...from,
          ...more,
          "-o",
          "json",
        );
        const [explanation] = (parseJson(text) as { items: readonly Explanation[] }).items;
        assert.ok(explanation !== undefined, text);
        assert.deepEqual(explanation.differences, []);
        return explanation;
      };
      assert.match(explainNodePort(edge).summary, /are tunneled to 2 nodes \(.*\), not masq/);
      const inner = explainNodePort(worker, "--in", tunnelNames[family]);
      assert.match(inner.summary, /are balanced over 2 of \d endpoints and not masqueraded$/);
      assert.equal(explainNodePort(worker).verdict, "forwarded");
      // Packets of all kinds, also those that other nodes forward.
      const kinds = explain(worker).packets.map(({ from: kind }) => kind);
      assert.ok(kinds.includes(`other nodes, through ${tunnelNames[family]}`), kinds.join());
    }
    assert.match(
      run(edge, "doctor"),
      /ok +tunnel-forwarding +kube-ipvs-ipip, kube-ipvs-ip6; \d+ TCP connections to other nodes; eth0 has MTU 1500/,
    );
    const planned = edge.shell(
      `${program} plan ${edge.args("--kube-ipvs-tunnel-forwarding").join(" ")}`,
    );
    assert.match(planned, /^No changes|nothing|0 changes/im);
  });

  it("is reported by `doctor` if the network drops tunneled packets", async () => {
    const [silent] = workers;
    const neighbor = addressOf.IPv4(silent);
    edge.shell(`ip neigh replace ${neighbor} lladdr 02:00:00:00:00:99 dev eth0 nud permanent`);
    // `mh` decides which connections use the silent node.
    await becomes("a connection is not answered", async () => {
      const answer = await ask(balancer.IPv4, { limitMs: noAnswerMs });
      return answer === "nobody";
    });
    assert.match(
      edge.shell(`${program} doctor --kube-ipvs-lock-name=${edge.name} || true`),
      new RegExp(`warn +tunnel-forwarding +.*: ${neighbor}:80 \\(\\d+\\)`),
    );
    edge.shell(`ip neigh delete ${neighbor} dev eth0`);
    await becomes("connections are tunneled", isTunneled);
  });

  it("ends when the annotation is removed", async () => {
    apply({ "kube-ipvs.io/scheduler": "mh" });
    for (const family of ipFamilies) {
      await becomesMasqueraded(balancer[family]);
      isAnswer(await ask(restricted[family]), new RegExp(` ${client[family]}$`));
      await becomesMasqueraded(addressOf[family](edge.number), nodePort);
      const atNodePort = await ask(addressOf[family](edge.number), { port: nodePort });
      isAnswer(atNodePort, new RegExp(`^node-[34] ${addressOf[family](edge.number)}$`));
    }
    apply();
    await becomes("connections are tunneled", isTunneled);
  });

  it("removes everything if the setting is turned off", async () => {
    for (const one of nodes) {
      await one.stop();
      // Other software may have removed the links.
      if (one === edge) one.shell(removeLinks);
      assert.notEqual(one.routing, "");
      await one.start("--v=0");
    }
    for (const one of nodes)
      await becomes(
        `${one.name} has no links, routing rules and rules`,
        () =>
          !one.hasTunnels && one.routing === "" && !/KUBE-IPVS-TUNNEL|IPVS-NODES/.test(one.rules),
      );
    for (const family of ipFamilies) isAnswer(await ask(balancer[family]), /^node-[34] /);
    assert.equal(await isTunneled(), false);
    for (const one of nodes) {
      await one.stop();
      await one.start();
    }
    await becomes("connections are tunneled", isTunneled);
  });

  it("removes everything in another mode, even if the links are lost", async () => {
    await otherEdge.stop();
    otherEdge.shell(removeLinks);
    assert.notEqual(otherEdge.routing, "");
    await otherEdge.start("--proxy-mode=userspace", "--kube-ipvs-rules=auto");
    await becomes(
      "no routing rules and rules exist",
      () => otherEdge.routing === "" && !/KUBE-IPVS-TUNNEL/.test(otherEdge.rules),
    );
    await otherEdge.stop();
    await otherEdge.start();
    await becomes("routing rules exist", () => otherEdge.routing !== "");
  });

  it("leaves nothing after the clean-up, even if a link is lost", async () => {
    for (const one of nodes) {
      await one.stop();
      if (one === worker) one.shell(removeLinks);
      assert.notEqual(one.routing, "");
      const cleanUp = new Program(one.args("--cleanup"), ["ip", "netns", "exec", one.name]);
      const { code } = await cleanUp.ends();
      assert.equal(code, 0, cleanUp.output);
      assert.equal(one.hasTunnels, false);
      assert.equal(one.routing, "");
      assert.doesNotMatch(one.rules, /KUBE-/);
      assert.equal(one.shell("ipvsadm -Sn").trim(), "");
    }
  });
});
