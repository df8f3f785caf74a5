/**
 * The bench's agent inside the lab: starts programs and reads /proc when the bench outside requests it over HTTP.
 * Otherwise it is idle, so it does not affect measurements. Usage: node test/bench/agent.ts ADDRESS/PREFIX PORT
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { createReadStream, openSync, readFileSync } from "node:fs";
import { createServer, get, type IncomingMessage } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { shell } from "../support/netns/network-namespace.ts";
import { StartedProcesses } from "../support/started-processes.ts";
import type { AgentRequests } from "./agent-requests.ts";
import { figuresOf } from "./process-figures.ts";

type Handlers = {
  readonly [Name in keyof AgentRequests]: (
    body: AgentRequests[Name]["body"],
  ) => AgentRequests[Name]["answer"] | Promise<AgentRequests[Name]["answer"]>;
};

interface Started {
  readonly child: ChildProcess;
  readonly outputPath: string;
  readonly ended: Promise<number | null>;
}

const maxOutputBytes = 256 * 1024 * 1024;
const outputPollMs = 3;
const started = new Map<number, Started>();
const processes = new StartedProcesses();

const handlers: Handlers = {
  exec({ argv, stdinPath, namespace }) {
    const [file = "", ...args] =
      namespace === undefined ? argv : ["ip", "netns", "exec", namespace, ...argv];
    const stdin = stdinPath === undefined ? "ignore" : openSync(stdinPath, "r");
    const beganMs = performance.now();
    const { status, stdout, stderr } = spawnSync(file, args, {
      stdio: [stdin, "pipe", "pipe"],
      maxBuffer: maxOutputBytes,
    });
    const elapsedMs = performance.now() - beganMs;
    return { status, stdout: stdout.toString(), stderr: stderr.toString(), elapsedMs };
  },

  start({ argv, environment }) {
    const [file = "", ...args] = argv;
    const outputPath = `/run/bench-output-${started.size}`;
    const output = openSync(outputPath, "w");
    const env = { ...process.env, ...environment };
    const child = spawn(file, args, { stdio: ["ignore", output, output], env });
    const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
    const pid = child.pid ?? 0;
    started.set(pid, { child, outputPath, ended });
    return { pid };
  },

  async waitForOutput({ pid, text, timeoutMs }) {
    const one = of(pid);
    const deadlineMs = performance.now() + timeoutMs;
    while (!readFileSync(one.outputPath, "utf8").includes(text)) {
      if (performance.now() > deadlineMs || one.child.exitCode !== null) return { isThere: false };
      await pause(outputPollMs);
    }
    return { isThere: true };
  },

  output: ({ pid }) => readFileSync(of(pid).outputPath, "utf8"),

  figures: ({ pid }) => figuresOf(pid),

  forkCount: () => processes.count(),

  async end({ pid, signal }) {
    const { child, ended } = of(pid);
    child.kill(signal);
    return { status: await ended };
  },

  fetch: ({ url }) => fetchText(url),

  read: ({ path }) => readFileSync(path, "utf8"),

  powerOff() {
    setImmediate(() => process.exit(0));
    return {};
  },
};

function of(pid: number): Started {
  const one = started.get(pid);
  if (one === undefined) throw new Error(`Process ${pid} was not started here`);
  return one;
}

function fetchText(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    get(url, { agent: false }, (response) => {
      textOf(response).then(resolve, reject);
    }).on("error", reject);
  });
}

async function textOf(stream: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/** Sets up the node that every case uses: the link to the bench outside, and the LAN with the node's address. */
function buildLinks(address: string): void {
  shell(`
    ip link set lo up
    if [ -e /sys/class/net/vec0 ]; then ip addr add ${address} dev vec0; ip link set vec0 up; fi
    ip link add eth0 type dummy
    ip addr add 192.168.10.11/24 dev eth0
    ip link set eth0 up
    ip route add default via 192.168.10.1
  `);
}

async function answer(request: IncomingMessage): Promise<unknown> {
  const name = (request.url ?? "/").slice(1);
  if (!Object.hasOwn(handlers, name)) throw new Error(`No such request: ${name}`);
  const handler = handlers[name as keyof Handlers] as (body: unknown) => unknown;
  return handler(JSON.parse((await textOf(request)) || "{}"));
}

const [address = "", port = ""] = process.argv.slice(2);
buildLinks(address);
createServer((request, response) => {
  answer(request).then(
    (result) => response.end(JSON.stringify(result)),
    (error: unknown) => response.writeHead(500).end(String(error)),
  );
}).listen(Number(port), "0.0.0.0", () => console.log("agent is listening"));
// Reads the file once in advance, so that the first request costs as much as later ones.
createReadStream("/proc/self/stat").resume();
