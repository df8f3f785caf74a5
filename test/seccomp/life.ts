/**
 * Runs the program under strace in the lab through all phases: first sync, changes, drains, HTTP pages, stop, a restart
 * with existing state, objects from a folder, and clean-up.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiServer } from "../support/api-server/api-server.ts";
import { eventually } from "../support/lab-daemon.ts";
import { shell } from "../support/netns/network-namespace.ts";
import { endpointSlice, node, service, servicePort } from "../support/objects.ts";
import { Program } from "../support/program.ts";

const synced = /SyncProxyRules complete/;
/** A long timeout, because everything is slower under strace. */
const patienceMs = 240_000;

/** A node with an address and the iptables chains that kubelet creates. */
export const nodeSetUp = `
  for family in iptables ip6tables; do $family-legacy -t mangle -N KUBE-IPTABLES-HINT; done
  ip link add eth0 type dummy
  ip link set eth0 up
  ip address add 192.168.10.11/24 dev eth0
`;

/** Runs the program, and returns the strace output of all its processes. */
export async function recordLife(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-seccomp-"));
  const server = await ApiServer.start({ objects: [node(), service(), endpointSlice()] });
  try {
    await withCluster(server, folder);
    await withFolder(folder);
    const cleanUp = traced(folder, ["--cleanup"]);
    await ended(cleanUp);
    return await traces(folder);
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true });
  }
}

/** With `-D`, strace is not the program's parent, so signals reach the program itself. */
function traced(folder: string, args: readonly string[]): Program {
  const file = join(folder, `${readdirSync(folder).length}.strace`);
  writeFileSync(file, "");
  const strace = ["strace", "-D", "-f", "-qq", "-s", "0", "-o", file];
  const environment = { ...process.env, NODE_COMPILE_CACHE: join(folder, "cache") };
  return new Program(args, strace, { env: environment });
}

async function ended(program: Program): Promise<void> {
  const { code } = await program.ends();
  if (code !== 0) throw new Error(`Exited with ${code}:\n${program.output}`);
}

async function withCluster(server: ApiServer, folder: string): Promise<void> {
  const path = join(folder, "config.yaml");
  writeConfig(path);
  const args = ["--config", path, "--master", server.url, "-v=4"];
  const program = traced(folder, args);
  await serves("10.244.1.10", 1);
  server.apply(
    service({ type: "NodePort", ports: [servicePort({ nodePort: 30_080 })] }),
    endpointSlice({ endpoints: ["10.244.1.11"] }),
  );
  await serves("10.244.1.11", 2);
  await readPages();
  program.kill("SIGTERM");
  console.error(`${Math.round(process.uptime())} s: ends`);
  await ended(program);
  const again = traced(folder, args);
  await eventually(() => synced.test(again.output), true, patienceMs);
  again.kill("SIGTERM");
  await ended(again);
}

async function withFolder(folder: string): Promise<void> {
  const manifests = join(folder, "manifests");
  mkdirSync(manifests);
  const write = (address: string): void => {
    const objects = [service(), endpointSlice({ endpoints: [address] })];
    for (const [index, object] of objects.entries()) {
      writeFileSync(join(manifests, `${index}.json`), JSON.stringify(object));
    }
  };
  write("10.244.1.12");
  const flags = ["--hostname-override=node-1", "--proxy-mode=ipvs"];
  const program = traced(folder, ["--manifests", manifests, "-v=4", ...flags]);
  await serves("10.244.1.12", 1);
  write("10.244.1.13");
  await serves("10.244.1.13", 1);
  program.kill("SIGTERM");
  await ended(program);
}

function writeConfig(path: string): void {
  const lines = [
    "apiVersion: kubeproxy.config.k8s.io/v1alpha1",
    "kind: KubeProxyConfiguration",
    "mode: ipvs",
    "hostnameOverride: node-1",
    "clusterCIDR: 10.244.0.0/16",
    "enableProfiling: true",
  ];
  writeFileSync(path, `${lines.join("\n")}\n`);
}

function servers(): string {
  return shell("ipvsadm -Sn");
}

/** Waits until at least this many virtual servers have the backend. */
async function serves(address: string, count: number): Promise<void> {
  const found = (): boolean => servers().split(`-r ${address}:`).length > count;
  await eventually(found, true, patienceMs);
  console.error(`${Math.round(process.uptime())} s: ${address} is served`);
}

async function readPages(): Promise<void> {
  const paths = ["metrics", "configz", "statusz", "flagz"];
  const pages = [...paths.map((path) => `10249/${path}`), "10256/healthz", "10256/livez"];
  for (const page of pages) await (await fetch(`http://127.0.0.1:${page}`)).text();
}

/** strace finishes its output file shortly after the program has exited. */
async function traces(folder: string): Promise<string> {
  const names = readdirSync(folder).filter((name) => name.endsWith(".strace"));
  const read = (): string => names.map((name) => readFileSync(join(folder, name), "utf8")).join("");
  let length = -1;
  await eventually(
    () => {
      const before = length;
      length = read().length;
      return length === before;
    },
    true,
    patienceMs,
  );
  return read();
}
