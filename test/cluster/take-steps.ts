/** Executes the steps of a guide on a cluster while connections are open. */
import { type Cluster, eventually } from "./cluster.ts";
import type { Step } from "./guide.ts";
import { runCommand } from "./operator.ts";
import type { RunCounts } from "./run-table.ts";
import { closeConnections, openConnections, readyPods } from "./shop.ts";

/** Timeout for a proxy pod to start or stop. */
const servingSeconds = 300;
const proxies = "k8s-app in (kube-proxy,kube-ipvs)";

export interface Standing {
  /** Connections from outside to each node's port. */
  readonly outside: number;
  /** Connections from a pod on each node to the cluster IP. */
  readonly inside: number;
}

/** Takes the steps in order, up to the first one that fails. */
export async function takeSteps(
  cluster: Cluster,
  checkout: string,
  steps: readonly Step[],
  { outside, inside }: Standing,
): Promise<RunCounts> {
  const holders = await openConnections(cluster, outside, inside);
  let [taken, failure] = [0, ""];
  try {
    for (const step of steps) {
      taken += 1;
      await take(cluster, checkout, step);
    }
  } catch (error) {
    cluster.signal.throwIfAborted();
    failure = error instanceof Error ? error.message : String(error);
  }
  const { count: connections, broken } = await closeConnections(holders);
  console.log(failure || "all steps done");
  console.log(`${connections} connections were open the whole time, ${broken} broke`);
  const failed = failure === "" ? 0 : 1;
  return { counted: "steps", count: taken, failed, connections, broken, failure };
}

/**
 * Executes one step and prints its duration. Rejects if the wrong pods serve afterwards, or if the Service does not
 * answer.
 */
async function take(cluster: Cluster, checkout: string, { command, serving }: Step): Promise<void> {
  console.log(`$ ${command}`);
  const begin = performance.now();
  await runCommand(cluster, checkout, command);
  if (serving !== undefined) await proxiesAre(cluster, serving);
  const { count, broken } = await closeConnections(await openConnections(cluster, 2, 1));
  if (broken > 0) throw new Error(`${broken} of ${count} new connections broke after: ${command}`);
  const seconds = ((performance.now() - begin) / 1_000).toFixed(0);
  console.log(`  ${seconds} s; ${count} new connections\n`);
}

/** Waits until each node has a ready proxy with the given image, and no other proxy. */
export function proxiesAre(cluster: Cluster, images: readonly string[]): Promise<void> {
  const wanted = cluster.nodeNames.map((name, index) => `${name} ${images[index]}`);
  return eventually(cluster, `ready: ${wanted.join(", ")}`, servingSeconds, async () => {
    const ready = await readyPods(cluster, "kube-system", proxies);
    return ready.join() === wanted.join();
  });
}
