/**
 * The cluster's load balancer: `node test/cluster/load-balancer.ts CREDENTIALS-FOLDER NODE-ADDRESS…`. It assigns IPv4
 * addresses to Services. In the cluster's namespace, it adds routes that send packets for these addresses to healthy
 * nodes. The source address of such packets does not belong to the nodes' network, so that specs can recognize it.
 */
import { execFileSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { ApiClient } from "./api-client.ts";
import { type Balancer, balancersOf, patchOf, routeOf, type Service } from "./balancer-plan.ts";
import { balancerSource } from "./network.ts";

const periodMs = 500;
const healthMs = 1_000;
const [folder = ".", ...nodes] = process.argv.slice(2);
const client = new ApiClient(folder);
const assigned = new Set<string>();
/** Whether each `NODE:PORT` was healthy when it last answered. */
const health = new Map<string, boolean>();
/** The arguments of `ip route replace` by address. */
const routes = new Map<string, string>();

/** Addresses are not reused, because nodes may still have the earlier Service's connections. */
function freeAddress(): string {
  const number = assigned.size + 256;
  const address = `172.20.${number >> 8}.${number & 255}`;
  assigned.add(address);
  return address;
}

/** A node that does not answer in time keeps its previous state, because a busy node may take seconds. */
async function isHealthy(node: string, port: number): Promise<boolean> {
  const target = `${node}:${port}`;
  const before = health.get(target) ?? false;
  let [now, reason] = [before, ""];
  try {
    const signal = AbortSignal.timeout(healthMs);
    const response = await fetch(`http://${target}/healthz`, { signal });
    await response.text();
    [now, reason] = [response.ok, `status ${response.status}`];
  } catch (error) {
    if (error instanceof Error && error.name === "TimeoutError") return before;
    [now, reason] = [false, "not reachable"];
  }
  if (now !== before) console.log(`${new Date().toISOString()} ${target}: ${reason}`);
  health.set(target, now);
  return now;
}

async function routeBalancers(balancers: readonly Balancer[]): Promise<void> {
  const wanted = new Map<string, readonly string[]>();
  const ports = [...new Set(balancers.map(({ healthPort }) => healthPort))];
  const healthy = new Map(
    await Promise.all(
      ports.map(async (port) => {
        const answers = await Promise.all(nodes.map((node) => isHealthy(node, port)));
        return [port, nodes.filter((_, index) => answers[index])] as const;
      }),
    ),
  );
  for (const balancer of balancers) {
    const route = routeOf(balancer, healthy.get(balancer.healthPort) ?? [], balancerSource);
    if (route !== undefined) wanted.set(balancer.address, route);
  }
  for (const address of routes.keys()) {
    if (wanted.has(address)) continue;
    changeRoute("delete", [address]);
    routes.delete(address);
  }
  for (const [address, route] of wanted) {
    const text = route.join(" ");
    if (routes.get(address) === text) continue;
    changeRoute("replace", route);
    routes.set(address, text);
  }
}

function changeRoute(action: string, route: readonly string[]): void {
  console.log(`${new Date().toISOString()} ip route ${action} ${route.join(" ")}`);
  execFileSync("ip", ["route", action, ...route]);
}

for (;;) {
  try {
    const services = await client.list<Service>("/api/v1/services");
    await routeBalancers(balancersOf(services, (address) => assigned.has(address)));
    for (const service of services) {
      const patch = patchOf(service, freeAddress);
      if (patch !== undefined) await client.patch(patch.path, patch.change);
    }
  } catch (error) {
    console.error(String(error));
  }
  await sleep(periodMs);
}
