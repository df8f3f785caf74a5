/**
 * Userspace mode on the host, compared with a direct connection and a forwarder in C (150 lines): throughput, latency,
 * memory and a thousand connections.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { shell } from "../../support/netns/network-namespace.ts";
import { Program } from "../../support/program.ts";
import type { Case, CaseContext, CaseOutcome } from "../case.ts";
import { quantile, type Row } from "../rows.ts";
import { number } from "../table.ts";

const backend = "10.244.1.10";
const connections = 1_000;
const serverScript: string = join(import.meta.dirname, "../userspace-server.ts");

const forwarderPath: string = join(import.meta.dirname, "../../../build/bench/forward");

/** Two node ports: one for the echo server, and one for the sending server. */
const manifest = `
kind: Service
metadata: { name: web }
spec:
  type: NodePort
  clusterIP: 10.96.0.20
  ports: [{ name: echo, port: 80, nodePort: 30080 }, { name: send, port: 81, nodePort: 30081 }]
---
kind: EndpointSlice
metadata: { name: web, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [{ name: echo, port: 8080 }, { name: send, port: 8081 }]
endpoints: [{ addresses: [${backend}] }]
`;

export const userspaceCases: readonly Case[] = [
  {
    name: "userspace",
    title: "Userspace mode, compared with a direct connection and a forwarder in C",
    expectedSeconds: 30,
    run: (context) => run(context),
  },
];

/** The addresses of the two ports. */
interface Way {
  readonly subject: "baseline" | "forwarder" | "kube-ipvs";
  readonly host: string;
  readonly echoPort: number;
  readonly sendPort: number;
}

const ways: readonly Way[] = [
  { subject: "baseline", host: backend, echoPort: 8_080, sendPort: 8_081 },
  { subject: "forwarder", host: "127.0.0.1", echoPort: 20_080, sendPort: 20_081 },
  { subject: "kube-ipvs", host: "127.0.0.1", echoPort: 30_080, sendPort: 30_081 },
];

async function run(context: CaseContext): Promise<CaseOutcome> {
  shell("ip link set lo up");
  shell(`ip address add ${backend}/32 dev lo`);
  const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-bench-userspace-"));
  writeFileSync(join(folder, "web.yaml"), manifest);
  const server = spawn(process.execPath, [serverScript, backend], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const forwarder = spawn(forwarderPath, [backend, "8080", "20080", "8081", "20081"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const program = new Program([
    ...["--proxy-mode=userspace", `--manifests=${folder}`, "--hostname-override=node-1", "-v=2"],
    ...["--kube-ipvs-lock-name=bench-userspace", "--healthz-bind-address=127.0.0.1:20256"],
    "--metrics-bind-address=127.0.0.1:20249",
  ]);
  try {
    await Promise.all([ready(server), ready(forwarder), program.prints(/SyncProxyRules complete/)]);
    return { rows: await measure(context, program.pid) };
  } finally {
    program.kill("SIGTERM");
    server.kill("SIGTERM");
    forwarder.kill("SIGTERM");
    await program.ends();
    rmSync(folder, { recursive: true });
  }
}

async function ready(server: ChildProcess): Promise<void> {
  if (server.stdout !== null) await once(server.stdout, "data");
}

async function measure(context: CaseContext, pid: number): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const way of ways) {
    context.step(`one connection, ${way.subject}`);
    rows.push(await throughput(way), ...(await latency(way)));
    context.keep(rows);
  }
  for (const way of ways) {
    context.step(`${connections} connections, ${way.subject}`);
    const isOurs = way.subject === "kube-ipvs";
    if (isOurs) rows.push(memoryRow("resident, idle", pid));
    for (const round of [1, 2, 3]) {
      const sockets = await open(way);
      if (round === 1) rows.push(await exchanges(way, sockets));
      if (isOurs)
        rows.push(memoryRow(`resident, ${number(connections)} connections, round ${round}`, pid));
      for (const socket of sockets) socket.destroy();
      await pause(500);
    }
    context.keep(rows);
  }
  return rows;
}

async function throughput({ subject, host, sendPort }: Way): Promise<Row> {
  const beganMs = performance.now();
  let bytes = 0;
  for await (const chunk of connect(sendPort, host)) bytes += (chunk as Buffer).length;
  const value = bytes / 1e6 / ((performance.now() - beganMs) / 1_000);
  return { subject, what: "throughput of one connection", unit: "MB/s", value, kind: "figure" };
}

async function latency({ subject, host, echoPort }: Way): Promise<readonly Row[]> {
  const socket = await opened(host, echoPort);
  const samples: number[] = [];
  for (let count = 0; count < 5_000; count += 1) samples.push(await exchange(socket));
  socket.destroy();
  const warm = samples.slice(500);
  const row = { subject, unit: "ms", kind: "figure" } as const;
  return [
    { ...row, what: "64-byte round trip, median", value: quantile(warm, 0.5) },
    { ...row, what: "64-byte round trip, p99", value: quantile(warm, 0.99) },
  ];
}

/** Every connection sends ten requests, and all connections run in parallel. */
async function exchanges({ subject }: Way, sockets: readonly Socket[]): Promise<Row> {
  const rounds = 10;
  const beganMs = performance.now();
  await Promise.all(
    sockets.map(async (socket) => {
      for (let count = 0; count < rounds; count += 1) await exchange(socket);
    }),
  );
  const seconds = (performance.now() - beganMs) / 1_000;
  const value = (sockets.length * rounds) / seconds;
  return {
    subject,
    what: `exchanges, ${number(connections)} connections`,
    unit: "1/s",
    value,
    kind: "figure",
  };
}

const question = Buffer.alloc(64, 1);

/** Milliseconds until the whole answer has arrived. */
async function exchange(socket: Socket): Promise<number> {
  const beganMs = performance.now();
  socket.write(question);
  for (let bytes = 0; bytes < question.length; ) {
    const [chunk] = (await once(socket, "data")) as [Buffer];
    bytes += chunk.length;
  }
  return performance.now() - beganMs;
}

function open({ host, echoPort }: Way): Promise<readonly Socket[]> {
  return Promise.all(Array.from({ length: connections }, () => opened(host, echoPort)));
}

async function opened(host: string, port: number): Promise<Socket> {
  const socket = connect({ host, port, noDelay: true });
  await once(socket, "connect");
  return socket;
}

function memoryRow(what: string, pid: number): Row {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const value = Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0) / 1_024;
  return { subject: "kube-ipvs", what, unit: "MB", value, kind: "figure" };
}
