/** Port ranges through virtual servers with firewall marks, with real packets of both IP families. */
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import { type IpAddress, type IpFamily, ipFamilies } from "../../src/base/ip.ts";
import { rangeMark } from "../../src/plan/port-ranges.ts";
import { markServerId } from "../../src/state/virtual-server.ts";
import { openIn } from "../support/client-traffic.ts";
import { LabNode, until } from "../support/lab-node.ts";
import { shell } from "../support/netns/network-namespace.ts";
import { addIpv6, ipv6Of, type Pod } from "../support/node-network.ts";
import { type ApiObject, endpoint, endpointSlice, service } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { Program } from "../support/program.ts";
import { labRules } from "../support/rules-writer.ts";
import { explained, kubeIpvs } from "../support/run-kube-ipvs.ts";

const pods = [
  { name: "pod-1", address: "10.244.1.10" },
  { name: "pod-2", address: "10.244.1.20" },
] as const;
const addressOf = (pod: Pod, family: IpFamily): string =>
  family === "IPv4" ? pod.address : ipv6Of(pod);
const addresses = {
  IPv4: { cluster: "10.96.0.10", balancer: "203.0.113.7", restricted: "203.0.113.8" },
  IPv6: { cluster: "fd00:96::a", balancer: "2001:db8:203::7", restricted: "2001:db8:203::8" },
};
const client: Readonly<Record<IpFamily, string>> = { IPv4: "192.168.10.1", IPv6: "fd00:10::1" };
const marks = 0x3fff0000;
/** Used after a restart. */
const otherMarks = 0x0fff8000;
/** Pods listen on these ports. The last one is outside of the range. */
const ports = [5060, 10_000, 15_000, 20_000, 20_001];
const inRange = [5060, 10_000, 20_000];
/** How long a client waits for an answer, and if no answer is expected. */
const answerMs = 30_000;
const noAnswerMs = 2_000;

const voice = (spec: Readonly<Record<string, unknown>> = {}): ApiObject =>
  service({
    name: "voice",
    type: "LoadBalancer",
    clusterIps: ipFamilies.map((family) => addresses[family].cluster),
    metadata: { annotations: { "kube-ipvs.io/port-range": "5060,10000-20000" } },
    ports: ["UDP", "TCP"].map((protocol) => ({
      ...{ name: `sip-${protocol.toLowerCase()}`, protocol, port: 5060, targetPort: 5060 },
    })),
    spec: {
      allocateLoadBalancerNodePorts: false,
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } },
      ...spec,
    },
    status: {
      loadBalancer: { ingress: ipFamilies.map((family) => ({ ip: addresses[family].balancer })) },
    },
  });

const restricted = service({
  name: "restricted",
  type: "LoadBalancer",
  clusterIps: ["10.96.0.11", "fd00:96::b"],
  metadata: { annotations: { "kube-ipvs.io/port-range": "10000-20000" } },
  ports: ["UDP", "TCP"].map((protocol) => ({
    ...{ name: protocol.toLowerCase(), protocol, port: 7000, targetPort: 7000 },
  })),
  spec: {
    allocateLoadBalancerNodePorts: false,
    loadBalancerSourceRanges: ["192.168.10.0/24", "fd00:10::/64"],
  },
  status: {
    loadBalancer: { ingress: ipFamilies.map((family) => ({ ip: addresses[family].restricted })) },
  },
});

const web = service({
  name: "web",
  clusterIps: ["10.96.0.12", "fd00:96::c"],
  ports: [{ name: "web", protocol: "TCP", port: 15_000, targetPort: 20_001 }],
  spec: { externalIPs: ipFamilies.map((family) => addresses[family].balancer) },
});

function slicesOf(
  name: string,
  names: readonly string[],
  endpoints: (typeof pods)[number][] = [...pods],
  portNumber = 5060,
): readonly ApiObject[] {
  return ipFamilies.map((family) =>
    endpointSlice({
      name: `${name}-${family.toLowerCase()}`,
      service: name,
      endpoints: endpoints.map((pod) => endpoint(addressOf(pod, family), { nodeName: "node-1" })),
      ports: names.map((one) => ({
        name: one,
        protocol: one.endsWith("udp") ? "UDP" : "TCP",
        port: portNumber,
      })),
    }),
  );
}

const objects = (endpoints: (typeof pods)[number][] = [...pods]): readonly ApiObject[] => [
  voice(),
  restricted,
  web,
  ...slicesOf("voice", ["sip-udp", "sip-tcp"], endpoints),
  ...slicesOf("restricted", ["udp", "tcp"], [...pods], 7000),
  ...slicesOf("web", ["web"], [pods[0]], 20_001),
];

/** Answers with its name, its port and the client's address, over UDP and TCP. TCP connections echo further lines. */
async function listen(pod: string): Promise<void> {
  for (const port of ports) {
    const datagrams = createSocket("udp6");
    datagrams.on("message", (_, { address, port: from }) => {
      datagrams.send(`${pod} ${port} ${address.replace("::ffff:", "")}`, from, address);
    });
    const server = createServer((socket) => {
      socket.on("error", () => {});
      socket.write(`${pod} ${port} ${socket.remoteAddress?.replace("::ffff:", "")}\n`);
      socket.on("data", (data) => (String(data) === "bye" ? socket.end() : socket.write(data)));
    });
    await openIn(pod, async () => {
      datagrams.bind(port);
      await once(datagrams, "listening");
      server.listen(port);
      await once(server, "listening");
    });
    datagrams.unref();
    server.unref();
  }
}

/** Only an answer from the requested address and port counts. */
async function askUdp(
  from: string,
  address: string,
  port: number,
  limitMs: number = answerMs,
): Promise<string> {
  const socket = createSocket(address.includes(":") ? "udp6" : "udp4");
  const answer = openIn(from, async () => {
    socket.on("error", () => {});
    socket.bind(0);
    await once(socket, "listening");
    socket.connect(port, address);
    await once(socket, "connect");
    socket.send("?");
    return once(socket, "message", { signal: AbortSignal.timeout(limitMs) }).then(
      ([message]) => String(message),
      () => "nobody",
    );
  });
  return answer.finally(() => socket.close());
}

async function open(
  from: string,
  address: string,
  port: number,
  limitMs: number = answerMs,
): Promise<Socket> {
  return openIn(from, async () => {
    const socket = connect({ host: address, port });
    socket.setTimeout(limitMs, () => socket.destroy(new Error("nobody")));
    await once(socket, "connect");
    return socket;
  });
}

async function askTcp(
  from: string,
  address: string,
  port: number,
  limitMs: number = answerMs,
): Promise<string> {
  const socket = await open(from, address, port, limitMs).catch(() => undefined);
  if (socket === undefined) return "nobody";
  socket.write("bye");
  return (await text(socket).catch(() => "nobody")).split("\n")[0] ?? "";
}

async function askBoth(...to: Parameters<typeof askUdp>): Promise<readonly string[]> {
  return [await askUdp(...to), await askTcp(...to)];
}

function serverOf(family: IpFamily, address: string): ReturnType<typeof markServerId> {
  return markServerId(family, rangeMark(address as IpAddress, marks));
}

describe("a port range", () => {
  let node: LabNode;

  const flags = (mask: number | undefined): readonly string[] => [
    "--cluster-cidr=10.244.0.0/16,fd00:244::/32",
    ...(mask === undefined ? [] : [`--kube-ipvs-port-range-marks=0x${mask.toString(16)}`]),
    ...(labRules === undefined ? [] : [`--kube-ipvs-rules=${labRules}`]),
  ];
  const start = (mask: number | undefined): Promise<void> => node.start(flags(mask));

  const rules = (): string =>
    labRules === undefined ? shell("iptables-save; ip6tables-save") : shell("nft -s list ruleset");

  const recordedMarks = (): readonly number[] =>
    JSON.parse(readFileSync("/run/kube-ipvs/state.json", "utf8")).portRangeMarks ?? [];

  /** Waits until these are the only virtual servers with firewall marks. `rest` are other programs' marks. */
  async function hasMarks(masks: readonly number[], ...rest: readonly number[]): Promise<void> {
    const own = ipFamilies.flatMap((family) =>
      Object.values(addresses[family]).flatMap((address) =>
        masks.map((mask) => rangeMark(address as IpAddress, mask)),
      ),
    );
    // Besides its load-balancer IP, "restricted" has a cluster IP.
    for (const mask of masks) {
      for (const address of ["10.96.0.11", "fd00:96::b"]) {
        own.push(rangeMark(address as IpAddress, mask));
      }
    }
    const wanted = [...own, ...rest].toSorted((one, other) => one - other).join();
    const found = (): string =>
      [...shell("ipvsadm -Sn").matchAll(/^-A -f (\d+)/gm)]
        .map(([, mark]) => Number(mark))
        .toSorted((one, other) => one - other)
        .join();
    await until(
      async () => found() === wanted,
      patienceMs,
      async () => `${found()} instead of ${wanted}\n${node.program.output}`,
    );
  }

  before(async () => {
    node = await LabNode.build([...pods]);
    addIpv6(pods);
    shell(`
      set -e
      ip -n client route add 203.0.113.0/24 via 192.168.10.11
      ip -n client route add 2001:db8:203::/64 via fd00:10::11
      ipvsadm -A -f 7 -s rr
      ipvsadm -a -f 7 -r 192.0.2.7 -m
    `);
    for (const { name } of pods) await listen(name);
    node.apply(...objects());
    await start(marks);
  });

  after(() => node.destroy());

  it("serves UDP and TCP at each of its ports, with one endpoint for all ports of a client", async () => {
    for (const family of ipFamilies) {
      for (const address of [addresses[family].cluster, addresses[family].balancer]) {
        for (const from of ["client", "node", "pod-1"]) {
          const answers: string[] = [];
          for (const port of inRange) {
            for (const answer of await askBoth(from, address, port)) {
              assert.match(
                answer,
                new RegExp(`^pod-[12] ${port} `),
                `${from} ${address} ${port}\n${node.program.output}`,
              );
              answers.push(answer.split(" ")[0] ?? "");
            }
          }
          assert.equal(new Set(answers).size, 1, `${from} ${address}: ${answers.join()}`);
        }
      }
    }
  });

  it("masquerades clients outside of the cluster, and no pods of this node", async () => {
    for (const family of ipFamilies) {
      const { cluster, balancer } = addresses[family];
      for (const address of [cluster, balancer]) {
        const [udp = "", tcp = ""] = await askBoth("client", address, 10_000);
        assert.equal(udp.endsWith(` ${client[family]}`), false, udp);
        assert.equal(tcp.endsWith(` ${client[family]}`), false, tcp);
      }
      const own = addressOf(pods[0], family);
      const [answer = ""] = await askBoth("pod-1", cluster, 10_000);
      const isItself = answer.startsWith("pod-1 ");
      assert.equal(answer.endsWith(` ${own}`), !isItself, answer);
    }
  });

  it("does not open other ports of the address", async () => {
    for (const family of ipFamilies) {
      for (const port of [9_999, 20_001]) {
        const { balancer } = addresses[family];
        assert.deepEqual(await askBoth("client", balancer, port, noAnswerMs), ["nobody", "nobody"]);
      }
    }
  });

  it("does not receive packets to another Service's port in the range", async () => {
    for (const family of ipFamilies) {
      assert.match(await askTcp("client", addresses[family].balancer, 15_000), /^pod-1 20001 /);
      assert.match(await askUdp("client", addresses[family].balancer, 15_000), /^pod-[12] 15000 /);
    }
  });

  it("applies source ranges", async () => {
    for (const family of ipFamilies) {
      const { restricted: address } = addresses[family];
      for (const answer of await askBoth("client", address, 10_000)) {
        assert.match(answer, /^pod-[12] 10000 /);
      }
      assert.deepEqual(await askBoth("pod-1", address, 10_000, noAnswerMs), ["nobody", "nobody"]);
    }
  });

  it("is shown by `services`, and `explain` reports no differences", () => {
    const { out } = kubeIpvs("services");
    for (const family of ipFamilies) {
      const { balancer, restricted: closed } = addresses[family];
      const name = family === "IPv4" ? balancer : `[${balancer}]`;
      assert.ok(out.includes(`${name}:5060,10000-20000`), out);
      const verdictOf = (port: number, from: string, address = name): unknown =>
        explained(`${address}:${port}`, "--from", from).map(({ verdict, differences }) => [
          verdict,
          differences,
        ]);
      assert.deepEqual(verdictOf(10_000, client[family]), [["balanced", []]]);
      assert.deepEqual(verdictOf(9_999, client[family]), [["refused", []]]);
      const other = family === "IPv4" ? closed : `[${closed}]`;
      const pod = addressOf(pods[0], family);
      assert.deepEqual(verdictOf(10_000, pod, other), [["dropped", []]]);
    }
  });

  it("is unchanged by a restart", async () => {
    await node.stop();
    const { code, out } = kubeIpvs("plan", ...node.flags, ...flags(marks));
    assert.equal(code, 0, out);
    await start(marks);
  });

  it("moves to other marks at a restart, even if the program is killed meanwhile", async () => {
    await node.stop();
    const { out } = kubeIpvs("plan", ...node.flags, ...flags(otherMarks));
    assert.match(out, new RegExp(`FWM ${serverOf("IPv4", addresses.IPv4.cluster).port} IPv4`));
    const killed = new Program([...node.flags, ...flags(otherMarks)]);
    await killed.prints(/Using ipvs Proxier/);
    killed.kill("SIGKILL");
    await killed.ends();
    await start(otherMarks);
    await hasMarks([otherMarks], 7);
    await until(
      async () => recordedMarks().join() === String(otherMarks),
      patienceMs,
      async () => `${recordedMarks()}\n${node.program.output}`,
    );
    for (const family of ipFamilies) {
      for (const answer of await askBoth("client", addresses[family].balancer, 10_000)) {
        assert.match(answer, /^pod-[12] 10000 /);
      }
    }
  });

  it("keeps other software's virtual servers whose marks are within the earlier mask", async () => {
    const foreign = 0x20000000;
    shell(`ipvsadm -A -f ${foreign} -s wlc`);
    await node.stop();
    await start(otherMarks);
    await hasMarks([otherMarks], 7, foreign);
    shell(`ipvsadm -D -f ${foreign}`);
  });

  it("is removed by a restart without the setting", async () => {
    await node.stop();
    await start(undefined);
    await hasMarks([], 7);
    await until(
      async () => !rules().includes("KUBE-IPVS-RANGES"),
      patienceMs,
      async () => `${rules()}\n${node.program.output}`,
    );
    for (const family of ipFamilies) {
      const { balancer } = addresses[family];
      assert.deepEqual(await askBoth("client", balancer, 10_000, noAnswerMs), ["nobody", "nobody"]);
      // The Service's own port.
      assert.match(await askTcp("client", balancer, 5060), /^pod-[12] 5060 /);
    }
    await node.stop();
    await start(marks);
    await hasMarks([marks], 7);
  });

  for (const mode of ["iptables", "userspace"]) {
    it(`is removed by ${mode} mode without the setting`, async () => {
      await node.stop();
      await node.start([
        // Other modes cannot write rules with nf_tables.
        ...flags(undefined).filter((flag) => !flag.startsWith("--kube-ipvs-rules=")),
        `--proxy-mode=${mode}`,
        "--kube-ipvs-tcp-drain-deadline=1s",
        "--kube-ipvs-udp-drain-deadline=1s",
      ]);
      await hasMarks([], 7);
      await until(
        async () => !rules().includes("KUBE-IPVS-RANGES"),
        patienceMs,
        async () => `${rules()}\n${node.program.output}`,
      );
      await node.stop();
      await start(marks);
      await hasMarks([marks], 7);
    });
  }

  it("drains an endpoint that is removed", async () => {
    const { cluster } = addresses.IPv4;
    const socket = await open("client", cluster, 10_000);
    // The connection is idle while the weights change.
    socket.setTimeout(patienceMs);
    const [first] = (await once(socket, "data")) as [Buffer];
    const [name] = String(first).split(" ");
    const [gone, rest] = pods[0].name === name ? [pods[0], pods[1]] : [pods[1], pods[0]];
    // Terminating endpoints still serve.
    const leaving = slicesOf("voice", ["sip-udp", "sip-tcp"], [rest]);
    const terminating = ipFamilies.map((family) =>
      endpointSlice({
        name: `voice-leaving-${family.toLowerCase()}`,
        service: "voice",
        endpoints: [
          {
            addresses: [addressOf(gone, family)],
            nodeName: "node-1",
            conditions: { ready: false, serving: true, terminating: true },
          },
        ],
        ports: [
          { name: "sip-udp", protocol: "UDP", port: 5060 },
          { name: "sip-tcp", protocol: "TCP", port: 5060 },
        ],
      }),
    );
    const others = objects().filter(
      ({ metadata }) => !String(metadata["name"]).startsWith("voice-"),
    );
    node.apply(...others, ...leaving, ...terminating);
    const names = [gone, rest].map((pod) => `${pod.name} ${pod === gone ? 0 : 1}`).toSorted();
    await node.hasWeights(serverOf("IPv4", cluster), names.join(", "));
    socket.write("still there");
    const [echo] = (await once(socket, "data")) as [Buffer];
    assert.equal(String(echo), "still there");
    assert.match(kubeIpvs("drains").out, /default\s+voice/);
    socket.destroy();
    // The pod is gone: its flows get another endpoint.
    node.apply(...others, ...leaving);
    await until(
      async () => (await node.weights(serverOf("IPv4", cluster))) === `${rest.name} 1`,
      patienceMs,
      async () => `${shell("ipvsadm -Ln")}\n${node.program.output}`,
    );
    for (const answer of await askBoth("client", cluster, 20_000)) {
      assert.ok(answer.startsWith(`${rest.name} 20000 `), answer);
    }
  });

  it("is removed with its annotation, and other software's virtual servers remain", async () => {
    node.apply(
      ...objects().map((object) =>
        object.kind === "Service"
          ? { ...object, metadata: { ...object.metadata, annotations: {} } }
          : object,
      ),
    );
    const listed = (): string => shell("ipvsadm -Sn");
    await until(
      async () =>
        listed()
          .split("\n")
          .filter((line) => line.startsWith("-A -f")).length === 1,
      patienceMs,
      async () => `${listed()}\n${node.program.output}`,
    );
    assert.match(listed(), /^-A -f 7 -s rr$/m);
    assert.match(listed(), /^-a -f 7 -r 192\.0\.2\.7/m);
    for (const family of ipFamilies) {
      const { balancer } = addresses[family];
      assert.equal(await askUdp("client", balancer, 10_000, noAnswerMs), "nobody");
    }
  });

  it("is removed by clean-up without the setting, and other software's virtual servers remain", async () => {
    node.apply(...objects());
    await until(
      async () => /^-A -f (?!7 )/m.test(shell("ipvsadm -Sn")),
      patienceMs,
      async () => `${shell("ipvsadm -Sn")}\n${node.program.output}`,
    );
    assert.match(rules(), /KUBE-IPVS-RANGES/);
    await node.stop();
    const { code, out, err } = kubeIpvs(
      ...["--cleanup", "--proxy-mode=ipvs"],
      ...(labRules === undefined ? [] : [`--kube-ipvs-rules=${labRules}`]),
    );
    assert.equal(code, 0, `${out}${err}`);
    assert.deepEqual(shell("ipvsadm -Sn").trim().split("\n"), [
      "-A -f 7 -s rr",
      "-a -f 7 -r 192.0.2.7:0 -m -w 1",
    ]);
    assert.doesNotMatch(rules(), /KUBE-IPVS-RANGES/);
  });
});
