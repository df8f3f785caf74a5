/**
 * New connections through a ClusterIP and a NodePort, compared with direct connections between the same ends in the
 * same run, with 1, 1,000 and 10,000 Services. Also measures the kernel memory of a connection and of a Service.
 */
import { join } from "node:path";
import type { ApiServer } from "../../support/api-server/api-server.ts";
import { clusterIpOf, nameOf } from "../../support/many-services.ts";
import { clientAddress, networkAroundNode, nodeAddress } from "../../support/node-network.ts";
import {
  type ApiObject,
  endpoint,
  endpointSlice,
  node,
  service,
  servicePort,
} from "../../support/objects.ts";
import { type Case, type CaseContext, type CaseOutcome, withMachine } from "../case.ts";
import { clusterOf, tableLines } from "../cluster.ts";
import type { Machine } from "../machine.ts";
import { quantile, type Row } from "../rows.ts";
import { ourCommand, quietFlags, Subject } from "../subject.ts";

/** The target's Service is created first, so it is at the end of its hash chain, which is the worst position. */
const sizes: readonly number[] = [1, 1_000, 10_000];
const rounds = 3;
const roundMs = 1_000;
export const workers = 8;
/**
 * Direct connections use another port. IPVS identifies answers by server, port, client and client port, so it would
 * treat a direct connection as one through the Service if the same client port was used within two minutes.
 */
export const ports = { service: 8080, direct: 8081 };
const nodePort = 30_080;
/**
 * A closed connection is tracked for 2 minutes. In this time, a fast machine opens more connections than the kernel can
 * track (65,536 with 3 GB). The kernel would then drop random packets, including those of direct connections.
 */
const mostTracked = 2 ** 20;
const program: string = join(import.meta.dirname, "../../../build/bench/connect");
const pods = [
  { name: "pod-1", address: "10.244.1.10" },
  { name: "pod-2", address: "10.244.1.11" },
] as const;
const [server] = pods;

interface Path {
  readonly name: string;
  /** Namespace of the client. */
  readonly from: string;
  readonly address: string;
  readonly port: number;
  /** The path between the same ends without IPVS. Absent if this path itself is direct. */
  readonly direct?: string;
}

export const toClusterIp: Path = {
  name: "pod to ClusterIP",
  from: "pod-2",
  address: clusterIpOf(0),
  port: 80,
  direct: "pod to pod, direct",
};
const paths: readonly Path[] = [
  { name: "pod to pod, direct", from: "pod-2", address: server.address, port: ports.direct },
  toClusterIp,
  { name: "LAN to pod, direct", from: "client", address: server.address, port: ports.direct },
  {
    name: "LAN to NodePort",
    from: "client",
    address: nodeAddress,
    port: nodePort,
    direct: "LAN to pod, direct",
  },
];

export const dataPlaneCases: readonly Case[] = [
  {
    name: "data-plane",
    title: "New connections through a ClusterIP and a NodePort, compared with direct ones",
    expectedSeconds: 120,
    run: (context) => run(context),
  },
];

function run(context: CaseContext): Promise<CaseOutcome> {
  context.step("booting");
  return withMachine({ objects: [node(), ...target()] }, async (machine, apiServer) => {
    await buildNetwork(machine);
    for (const port of Object.values(ports)) await startServer(machine, port);
    const rows: Row[] = [];
    for (const [at, services] of sizes.entries()) {
      context.step(`${count(services)} Services: first sync`);
      apiServer.apply(...others(sizes[at - 1] ?? 1, services));
      const subject = await startDaemon(machine, apiServer, services);
      rows.push(...(await measureSize(machine, services, context)));
      context.keep(rows);
      // The kernel keeps the daemon's state, and the next daemon continues with it.
      await subject.end();
    }
    rows.push(...(await kernelRows(machine)));
    return { rows };
  });
}

/** Service 0: a NodePort Service with the only serving pod. */
export function target(): readonly ApiObject[] {
  return [
    service({
      name: nameOf(0),
      type: "NodePort",
      clusterIps: [clusterIpOf(0)],
      ports: [servicePort({ nodePort, targetPort: ports.service })],
    }),
    endpointSlice({ service: nameOf(0), endpoints: [endpoint(server.address)] }),
  ];
}

/** Services `from` to `to` - 1 with one endpoint each. */
export function others(from: number, to: number): readonly ApiObject[] {
  return clusterOf({ services: to - from, endpoints: 1 }, from);
}

/** The first namespace of the lab is the node. Its dummy eth0 is replaced by the LAN. */
export async function buildNetwork(machine: Machine): Promise<void> {
  await machine.script(`
    ip link del eth0
    ip netns attach node $$
    ${networkAroundNode(pods)}
    ip -n client route add 10.244.0.0/16 via ${nodeAddress}
    for name in client ${server.name} ${pods[1].name}; do
      ip netns exec $name sysctl -q -w net.ipv4.ip_local_port_range='1024 65535'
    done
    sysctl -q -w net.ipv4.ip_forward=1
    sysctl -q -w net.netfilter.nf_conntrack_max=${mostTracked}
  `);
  await machine.run(["ping", "-c", "1", "-W", "5", clientAddress]);
}

export async function startServer(machine: Machine, port: number): Promise<void> {
  const argv = [
    ...["ip", "netns", "exec", server.name, program],
    ...["serve", String(port), String(workers)],
  ];
  const { pid } = await machine.ask("start", { argv });
  const wanted = { pid, text: "serving", timeoutMs: 10_000 };
  if (!(await machine.ask("waitForOutput", wanted)).isThere) {
    throw new Error(`The server is not running: ${await machine.ask("output", { pid })}`);
  }
}

export async function startDaemon(
  machine: Machine,
  apiServer: ApiServer,
  services: number,
  flags: readonly string[] = [],
): Promise<Subject> {
  const subject = await Subject.start(
    machine,
    ourCommand(apiServer.url, [...quietFlags, ...flags]),
  );
  await subject.hasSynced();
  await machine.hasLines(tableLines({ services, endpoints: 1 }));
  await subject.becomesIdle();
  return subject;
}

interface Measured {
  readonly path: Path;
  /** Connections per second in each round. */
  readonly perSecond: number[];
  /** Latency of each connection, measured one at a time. */
  readonly latenciesMs: number[];
}

/** Alternates between the paths, so that other work on the machine affects all of them equally. */
async function measureSize(
  machine: Machine,
  services: number,
  context: CaseContext,
): Promise<readonly Row[]> {
  const all = paths.map((path): Measured => ({ path, perSecond: [], latenciesMs: [] }));
  let failures = 0;
  for (let round = 0; round < rounds; round++) {
    for (const { path, perSecond, latenciesMs } of all) {
      context.step(`${count(services)} Services, round ${round + 1} of ${rounds}: ${path.name}`);
      const alone = await load(machine, path, 1);
      for (const microseconds of alone.microseconds) latenciesMs.push(microseconds / 1_000);
      const together = await load(machine, path, workers);
      perSecond.push(together.perSecond);
      failures += alone.failures + together.failures;
    }
  }
  const failed: Row = {
    subject: "all",
    kind: "count",
    unit: "",
    value: failures,
    what: `failed connections, ${count(services)} Services`,
    target: { text: "0", most: 0 },
  };
  return [failed, ...all.flatMap((one) => rowsOf(one, all, services))];
}

interface Load {
  readonly microseconds: readonly number[];
  readonly perSecond: number;
  readonly failures: number;
}

export async function load(
  machine: Machine,
  path: Path,
  atOnce: number,
  exchanges = 1,
): Promise<Load> {
  const words = ["load", path.address, path.port, atOnce, roundMs, exchanges].map(String);
  const { stdout } = await machine.run([program, ...words], { namespace: path.from });
  return JSON.parse(stdout) as Load;
}

function rowsOf(one: Measured, all: readonly Measured[], services: number): readonly Row[] {
  const { path, perSecond, latenciesMs } = one;
  const where = `${path.name}, ${count(services)} Services`;
  const figure = {
    subject: path.direct === undefined ? "direct" : "IPVS",
    kind: "figure",
  } as const;
  const rows: readonly Row[] = [
    {
      ...figure,
      unit: "/s",
      what: `connections per second, ${workers} at once, ${where}`,
      value: quantile(perSecond, 0.5),
      samples: perSecond,
    },
    {
      ...figure,
      unit: "ms",
      what: `connection to first answer, p99, ${where}`,
      value: quantile(latenciesMs, 0.99),
      samples: latenciesMs,
    },
  ];
  const direct = all.find(({ path: { name } }) => name === path.direct);
  return direct === undefined ? rows : [...rows, ...ratioRows(one, direct, where)];
}

function ratioRows(one: Measured, direct: Measured, where: string): readonly Row[] {
  const figure = { subject: "IPVS", kind: "figure", unit: "×" } as const;
  const rates = one.perSecond.map((value, round) => value / (direct.perSecond[round] ?? value));
  const times = (q: number): number =>
    quantile(one.latenciesMs, q) / quantile(direct.latenciesMs, q);
  return [
    {
      ...figure,
      what: `connections per second, relative to direct, ${where}`,
      value: quantile(rates, 0.5),
      samples: rates,
    },
    {
      ...figure,
      what: `connection to first answer, p50, relative to direct, ${where}`,
      value: times(0.5),
    },
    {
      ...figure,
      what: `connection to first answer, p99, relative to direct, ${where}`,
      value: times(0.99),
    },
  ];
}

/** Kernel memory per connection, according to the slab allocator. Empty if unavailable. */
async function kernelRows(machine: Machine): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const [slab, what] of [
    ["ip_vs_conn", "kernel memory of one IPVS connection"],
    ["nf_conntrack", "kernel memory of one tracked flow, without extensions"],
  ] as const) {
    const argv = ["cat", `/sys/kernel/slab/${slab}/slab_size`];
    const { status, stdout } = await machine.ask("exec", { argv });
    if (status !== 0) continue;
    const value = Number(stdout);
    rows.push({ subject: "kernel", kind: "figure", unit: "bytes", what, value });
  }
  return rows;
}

function count(services: number): string {
  return services.toLocaleString("en");
}
