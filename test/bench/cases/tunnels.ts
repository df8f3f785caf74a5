/**
 * New connections and transfers through a node without endpoints, with tunnel forwarding and masqueraded. Both are
 * measured alternately in the same run, and the result is their ratio.
 *
 *     client ── bridge ──┬── node     receives the client's packets
 *                        └── node-2 ── pod
 */
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { clientAddress, networkAroundNode, nodeAddress } from "../../support/node-network.ts";
import { endpoint, endpointSlice, node, service, servicePort } from "../../support/objects.ts";
import { type Case, type CaseContext, type CaseOutcome, withMachine } from "../case.ts";
import type { Machine } from "../machine.ts";
import { labCpuMs } from "../process-figures.ts";
import { type Figure, roundRows } from "../rows.ts";
import { Subject } from "../subject.ts";
import { load, workers } from "./data-plane.ts";

const rounds = Number(process.env["BENCH_ROUNDS"] ?? 5);
const transferMs = 2_000;
const project: string = join(import.meta.dirname, "../../..");
const program: string = join(project, "build/bench/connect");
const objectsFolder = "/run/bench-tunnels";
const otherNodeAddress = "192.168.10.12";
const podAddress = "10.244.2.10";
const podPort = 8080;
const tunnelLink = "kube-ipvs-ipip";

const ways = ["tunnel", "masquerade"] as const;
type Way = (typeof ways)[number];
const addresses: Readonly<Record<Way, string>> = {
  tunnel: "203.0.113.7",
  masquerade: "203.0.113.8",
};

export const tunnelCases: readonly Case[] = [
  {
    name: "tunnels",
    title: "Connections and transfers through a node without endpoints, with and without a tunnel",
    expectedSeconds: 120,
    run,
  },
];

function run(context: CaseContext): Promise<CaseOutcome> {
  context.step("booting");
  return withMachine({ objects: [node()] }, async (machine) => {
    await buildNetwork(machine);
    await start(machine, "pod", [program, "serve", String(podPort), String(workers)], "serving");
    const nodes = [await startDaemon(machine, 1), await startDaemon(machine, 2)];
    await hasTunnel(machine);
    // Only the kernel is measured.
    for (const one of nodes) await one.end();
    const measured = new Map<Way, (readonly Figure[])[]>(ways.map((way) => [way, []]));
    for (let round = 1; round <= rounds; round += 1) {
      for (const [way, figures] of measured) {
        context.step(`round ${round} of ${rounds}: ${way}`);
        const before = await receivedByTunnel(machine);
        figures.push(await measure(machine, addresses[way]));
        const isTunneled = (await receivedByTunnel(machine)) > before;
        if (isTunneled !== (way === "tunnel")) throw new Error(`${way}: wrong path`);
      }
      context.keep(roundRows(measured, "masquerade"));
    }
    return { rows: roundRows(measured, "masquerade") };
  });
}

/** The lab's first namespace is the node. */
async function buildNetwork(machine: Machine): Promise<void> {
  const objects = [
    node(),
    node({ name: "node-2", addresses: [otherNodeAddress], podCidrs: ["10.244.2.0/24"] }),
    ...ways.flatMap((name, index) => [
      service({
        ...{ name, type: "LoadBalancer", clusterIps: [`10.96.0.${10 + index}`] },
        metadata: { annotations: { "kube-ipvs.io/forwarding": name } },
        ports: [servicePort({ targetPort: podPort })],
        spec: { allocateLoadBalancerNodePorts: false },
        status: { loadBalancer: { ingress: [{ ip: addresses[name] }] } },
      }),
      endpointSlice({
        service: name,
        endpoints: [endpoint(podAddress, { nodeName: "node-2" })],
        ports: [{ name: "http", protocol: "TCP", port: podPort }],
      }),
    ]),
  ];
  await machine.script(`
    mkdir ${objectsFolder}
    cat > ${objectsFolder}/objects.yaml <<'END'
${objects.map((object) => JSON.stringify(object)).join("\n---\n")}
END
    ip link del eth0
    ip netns attach node $$
    ${networkAroundNode([])}
    ip netns add node-2
    ip netns add pod
    ip -n client address flush dev eth0
    ip -n client link add br0 type bridge
    ip -n client link set eth0 master br0
    ip -n client link set br0 up
    ip -n client address add ${clientAddress}/24 dev br0
    ip -n client link add eth1 type veth peer name eth0 netns node-2
    ip -n client link set eth1 master br0 up
    for address in ${Object.values(addresses).join(" ")}; do
      ip -n client route add $address via ${nodeAddress}
    done
    ip -n node-2 link set lo up
    ip -n node-2 address add ${otherNodeAddress}/24 dev eth0
    ip -n node-2 link set eth0 up
    ip -n node-2 route add default via ${clientAddress}
    ip -n node-2 link add pod0 type veth peer name eth0 netns pod
    ip -n node-2 address add 10.244.2.1/24 dev pod0
    ip -n node-2 link set pod0 up
    ip -n pod link set lo up
    ip -n pod address add ${podAddress}/24 dev eth0
    ip -n pod link set eth0 up
    ip -n pod route add default via 10.244.2.1
    ip -n node route add 10.244.2.0/24 via ${otherNodeAddress}
    ip netns exec client sysctl -q -w net.ipv4.ip_local_port_range='1024 65535'
    ip netns exec node-2 sysctl -q -w net.ipv4.ip_forward=1
    sysctl -q -w net.ipv4.ip_forward=1
    sysctl -q -w net.netfilter.nf_conntrack_max=${2 ** 20}
  `);
}

function startDaemon(machine: Machine, number: 1 | 2): Promise<Subject> {
  const name = `node-${number}`;
  return start(
    machine,
    number === 1 ? undefined : name,
    [
      join(project, "dist/kube-ipvs"),
      ...[`--hostname-override=${name}`, `--kube-ipvs-lock-name=${name}`],
      ...[
        "--cluster-cidr=10.244.0.0/16",
        "--conntrack-max-per-core=0",
        "--conntrack-min=0",
        "-v=2",
      ],
      ...["--kube-ipvs-port-range-marks=0x3fff0000", "--kube-ipvs-tunnel-forwarding"],
      ...[`--manifests=${objectsFolder}`, "--kube-ipvs-claims-file="],
      `--kube-ipvs-state-file=/run/${name}.state`,
    ],
    "SyncProxyRules complete",
  );
}

async function start(
  machine: Machine,
  namespace: string | undefined,
  command: readonly string[],
  text: string,
): Promise<Subject> {
  const prefix = namespace === undefined ? [] : ["ip", "netns", "exec", namespace];
  const argv = [...prefix, ...command];
  const subject = await Subject.start(machine, { name: text, argv, isOurs: true });
  const wanted = { pid: subject.pid, text, timeoutMs: 60_000 };
  if (!(await machine.ask("waitForOutput", wanted)).isThere)
    throw new Error(`${argv.join(" ")}: no ${text}\n${await subject.output()}`);
  return subject;
}

/** Waits until both nodes use the tunnel. The link and the virtual servers may need another sync. */
async function hasTunnel(machine: Machine): Promise<void> {
  const path = { name: "", from: "client", address: addresses.tunnel, port: 80 };
  const deadlineMs = performance.now() + 60_000;
  while (performance.now() < deadlineMs) {
    const before = await receivedByTunnel(machine);
    const { failures } = await load(machine, path, 1);
    if (failures === 0 && (await receivedByTunnel(machine)) > before) return;
    await pause(1_000);
  }
  throw new Error("No packet reached the other node through a tunnel");
}

/** Number of packets that the other node received through the tunnel. 0 if the link does not exist. */
async function receivedByTunnel(machine: Machine): Promise<number> {
  const path = `/sys/class/net/${tunnelLink}/statistics/rx_packets`;
  const script = `cat ${path} 2> /dev/null || echo 0`;
  return Number((await machine.script(script, { namespace: "node-2" })).stdout);
}

async function measure(machine: Machine, address: string): Promise<readonly Figure[]> {
  const path = { name: "", from: "client", address, port: 80 };
  const beganMs = labCpuMs();
  const { microseconds, perSecond, failures } = await load(machine, path, workers);
  const cpuMs = labCpuMs() - beganMs;
  if (failures > 0) throw new Error(`${failures} connections to ${address} failed`);
  const figures: Figure[] = [
    { what: "connections per second", unit: "/s", value: perSecond },
    { what: "CPU per connection", unit: "ms", value: cpuMs / microseconds.length },
  ];
  for (const direction of ["down", "up"] as const) {
    const words = ["transfer", address, "80", String(transferMs), direction];
    const begunMs = labCpuMs();
    const { stdout } = await machine.run([program, ...words], { namespace: "client" });
    const bytesPerSecond = (JSON.parse(stdout) as { perSecond: number }).perSecond;
    const megabytes = (bytesPerSecond / 1e6) * (transferMs / 1_000);
    figures.push(
      { what: `transfer ${direction}`, unit: "MB/s", value: bytesPerSecond / 1e6 },
      {
        what: `CPU per MB, transfer ${direction}`,
        unit: "ms",
        value: (labCpuMs() - begunMs) / megabytes,
      },
    );
  }
  return figures;
}
