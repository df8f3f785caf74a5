/**
 * Breaks a cluster's control plane and reboots a node while connections are open. Writes
 * docs/reports/data/cluster-faults.tsv.
 *
 *     node test/cluster/faults.ts --kubernetes FOLDER [--away SECONDS] [--only NAME,…] [--stay]
 *
 * Exit status 1: a connection broke, or a changed endpoint was not served. 2: the cluster could not be brought up.
 * 130: interrupted.
 */
import { backendOn, canaryAnswers, canaryService, pointCanary } from "./canary.ts";
import type { LabCluster } from "./cluster.ts";
import { controlPlaneFaults, type Fault, type Faulty } from "./fault-steps.ts";
import { type FaultResult, withResults } from "./fault-table.ts";
import { nodeFaults } from "./node-faults.ts";
import { startNode } from "./nodes.ts";
import { type Options, positiveInteger, someOf } from "./options.ts";
import { apply, installKubeIpvs, packImage } from "./proxy.ts";
import { rewriteTable } from "./report-files.ts";
import { closeConnections, holdNodePorts, nodeAddresses, shopIsOpen, shopObjects } from "./shop.ts";
import { bringUp, build, commitAndDate, runProgram } from "./with-cluster.ts";

const heldPerNode = 25;
const allFaults: readonly Fault[] = [...controlPlaneFaults, ...nodeFaults];

/** Injects one fault while connections are open, then waits until both nodes serve a changed endpoint. */
async function run(fault: Fault, faulty: Faulty): Promise<FaultResult> {
  const { cluster } = faulty;
  const title = fault.title(faulty);
  console.log(`\n${title}`);
  await pointCanary(cluster, backendOn(cluster, 0));
  await canaryAnswers(cluster, backendOn(cluster, 0));
  await fault.prepare?.(faulty);
  const addresses = await nodeAddresses(cluster);
  const kept = fault.rebootsLastNode ? addresses.slice(0, -1) : addresses;
  const holder = await holdNodePorts(cluster, kept, (heldPerNode * addresses.length) / kept.length);
  let seconds: number | undefined;
  try {
    const restored = await fault.inject(faulty);
    if (restored === undefined) await pointCanary(cluster, backendOn(cluster, 1));
    seconds = await canaryAnswers(cluster, restored ?? backendOn(cluster, 1));
  } catch (error) {
    cluster.signal.throwIfAborted();
    console.log(error instanceof Error ? error.message : String(error));
  }
  const { count, broken } = await closeConnections([holder]);
  console.log(`${count} connections were open the whole time, ${broken} broke`);
  const { name } = fault;
  return { name, fault: title, seconds, held: count, broken, ...commitAndDate() };
}

async function breakCluster(
  cluster: LabCluster,
  options: Options<"away" | "only">,
): Promise<number> {
  const images = [packImage(build), ...cluster.kubernetes.images.slice(0, 1)];
  const installation = { kubeProxy: undefined, mode: "ipvs", images };
  const running = await bringUp(cluster, installation);
  await installKubeIpvs(cluster, "ipvs");
  await apply(cluster, "shop", [...shopObjects(cluster), canaryService()]);
  await shopIsOpen(cluster);
  const faulty: Faulty = {
    cluster,
    controlPlane: running.controlPlane,
    kernels: [...running.kernels],
    awaySeconds: Number(options.away),
    startNode: (node) => startNode(cluster, node, installation),
  };
  const results: FaultResult[] = [];
  const wanted = options.only.split(",");
  for (const fault of allFaults.filter(({ name }) => wanted.includes(name))) {
    results.push(await run(fault, faulty));
    rewriteTable("cluster-faults.tsv", (earlier) => withResults(earlier, results));
  }
  const isGood = ({ seconds, broken }: FaultResult): boolean =>
    seconds !== undefined && broken === 0;
  return results.every(isGood) ? 0 : 1;
}

await runProgram(
  { away: positiveInteger(60), only: someOf(allFaults.map(({ name }) => name)) },
  breakCluster,
);
