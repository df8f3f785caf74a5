/**
 * Measures how long a proxy takes to program a changed endpoint. Also measures the number and bytes of its API requests
 * while nothing changes, and at one change per second. Writes docs/reports/data/cluster-latency.tsv.
 *
 *     node test/cluster/latency.ts --kubernetes FOLDER [--proxy kube-ipvs|kube-proxy] [--mode ipvs|iptables]
 *       [--services N] [--seconds N] [--stay]
 *
 * No kubelet runs the Pods; kube-controller-manager creates their EndpointSlices. `--seconds` is the duration of each
 * of the two measurements. Exit status 1: a proxy did not program every change. 2: the cluster could not be brought up.
 * 130: interrupted.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { noRules, requestCounts } from "./audit.ts";
import { credential, eventually, kubectl, type LabCluster } from "./cluster.ts";
import { auditLog } from "./control-plane.ts";
import {
  bucketOf,
  type Histogram,
  observations,
  quantile,
  readHistogram,
  since,
} from "./histogram.ts";
import { latencyHead } from "./latency-text.ts";
import { manyPods, namespace, podName, podsPerService } from "./many-pods.ts";
import { gateway, inNamespace } from "./network.ts";
import { runShell } from "./operator.ts";
import { type Options, oneOf, positiveInteger } from "./options.ts";
import { apply, applyStatus, installKubeIpvs, notReadyTaint, packImage } from "./proxy.ts";
import type { Traffic } from "./relay.ts";
import { rewriteTable } from "./report-files.ts";
import { withRows } from "./result-table.ts";
import { bringUp, build, commitAndDate, runProgram } from "./with-cluster.ts";

const metric = "kubeproxy_network_programming_duration_seconds";
/** The API server listens on port 6443 of all addresses, so the relay needs another port. Only proxies use it. */
const relayPort = "6444";
const relayedServer = `https://${gateway}:${relayPort}`;
/** Enough for the creation of 5,000 Pods. */
const creationSeconds = 900;
/** Longer than the relay takes to write its numbers, and longer than a proxy may delay a sync. */
const settleMs = 5_000;
/** Longer than kube-proxy's syncs take. */
const lastSyncMs = 25_000;

const known = {
  proxy: oneOf("kube-ipvs", "kube-proxy"),
  mode: oneOf("ipvs", "iptables"),
  services: positiveInteger(1_000),
  seconds: positiveInteger(300),
};

/** Counters that start at zero with the run. */
interface Reading {
  readonly traffic: Traffic;
  readonly requests: number;
  readonly programming: Histogram;
}

const trafficFile = (cluster: LabCluster): string => join(cluster.folder, "traffic.json");

async function bringUpWithRelay(
  cluster: LabCluster,
  { proxy, mode }: Options<keyof typeof known>,
): Promise<void> {
  const isOurs = proxy === "kube-ipvs";
  const { kubernetes } = cluster;
  await bringUp(
    cluster,
    {
      kubeProxy: isOurs ? undefined : kubernetes.program("kube-proxy"),
      mode,
      ...(isOurs && { taints: [notReadyTaint] }),
      images: isOurs ? [packImage(build), ...kubernetes.images.slice(0, 1)] : [],
    },
    {
      servers: { "kube-proxy": relayedServer },
      // Other controllers would notice that no kubelet reports the Pods.
      controllers: ["*", "-node-lifecycle-controller", "-pod-garbage-collector-controller"],
    },
  );
  const relay = [join(import.meta.dirname, "relay.ts"), gateway, relayPort, "6443"];
  cluster.programs.start("relay", inNamespace(process.execPath, ...relay, trafficFile(cluster)), {
    log: join(cluster.folder, "relay.log"),
  });
  if (isOurs) await installKubeIpvs(cluster, mode, relayedServer);
}

async function createPods(cluster: LabCluster, services: number): Promise<void> {
  const [base = [], objects = [], statuses = []] = manyPods(services);
  await apply(cluster, "base", base);
  await eventually(cluster, "the namespace has its account", 60, async () => {
    const account = await kubectl(cluster, "-n", namespace, "get", "serviceaccount", "default");
    return account !== undefined;
  });
  await apply(cluster, "objects", objects);
  await applyStatus(cluster, "statuses", statuses);
  const expected = services * podsPerService;
  await eventually(cluster, `${expected} endpoints`, creationSeconds, async () => {
    const path = "jsonpath={.items[*].endpoints[*].conditions.ready}";
    const ready = await kubectl(cluster, "-n", namespace, "get", "endpointslices", "-o", path);
    return (ready ?? "").split(" ").filter((word) => word === "true").length === expected;
  });
}

async function read(cluster: LabCluster): Promise<Reading> {
  await sleep(settleMs, undefined, { signal: cluster.signal });
  const pages: string[] = [];
  for (const { name, address } of cluster.network.nodes) {
    const page = join(cluster.folder, `${name}.metrics`);
    const command = `curl -sSf --max-time 30 http://${address}:10249/metrics > ${page}`;
    await runShell(inNamespace("sh", "-ec", command), { signal: cluster.signal });
    pages.push(readFileSync(page, "utf8"));
  }
  const counts = requestCounts(readFileSync(auditLog(cluster), "utf8"), noRules);
  return {
    traffic: JSON.parse(readFileSync(trafficFile(cluster), "utf8")) as Traffic,
    requests: counts.reduce((sum, { count }) => sum + count, 0),
    programming: readHistogram(pages, metric),
  };
}

async function measure(cluster: LabCluster, options: Options<keyof typeof known>): Promise<number> {
  const [services, seconds] = [Number(options.services), Number(options.seconds)];
  await bringUpWithRelay(cluster, options);
  await createPods(cluster, services);
  const start = await read(cluster);
  console.log(`no changes for ${seconds} s`);
  await sleep(seconds * 1_000, undefined, { signal: cluster.signal });
  const idle = await read(cluster);
  console.log(`one change per second for ${seconds} s`);
  const pods = Array.from({ length: services }, (_, service) => podName(service, 0));
  const program = [join(import.meta.dirname, "change-pods.ts"), credential(cluster, "")];
  await runShell(inNamespace(process.execPath, ...program, namespace, String(seconds), ...pods), {
    signal: cluster.signal,
  });
  await sleep(lastSyncMs, undefined, { signal: cluster.signal });
  const end = await read(cluster);
  const nodeCount = cluster.nodeNames.length;
  const programming = since(idle.programming, end.programming);
  const changes = seconds * nodeCount;
  const recorded = observations(programming);
  const shown = [0.5, 0.99].flatMap((share) => [
    quantile(programming, share)?.toFixed(2) ?? "",
    bucketOf(programming, share)?.join("–") ?? "",
  ]);
  const { commit, date } = commitAndDate();
  const rows = [
    ["0", ...perDaemonAndHour(start, idle, seconds, nodeCount), 0, 0, "", "", "", ""],
    ["1", ...perDaemonAndHour(idle, end, seconds, nodeCount), changes, recorded, ...shown],
  ].map(([changesPerSecond = "", ...results]) => [
    ...[options.proxy, options.mode, services, changesPerSecond, ...results, commit, date],
  ]);
  for (const row of rows) console.log(row.join("  "));
  rewriteTable("cluster-latency.tsv", (earlier) => withRows(earlier, latencyHead, rows, 4));
  return recorded >= changes ? 0 : 1;
}

function perDaemonAndHour(
  before: Reading,
  after: Reading,
  seconds: number,
  nodeCount: number,
): readonly number[] {
  const factor = 3_600 / seconds / nodeCount;
  return [
    after.requests - before.requests,
    after.traffic.connections - before.traffic.connections,
    after.traffic.bytes - before.traffic.bytes,
  ].map((count) => Math.round(count * factor));
}

await runProgram(known, measure);
