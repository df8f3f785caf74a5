/** The actions, outputs and expectations of each step. */
import { shell } from "../support/netns/network-namespace.ts";
import { clientAddress, nodeAddress, type Pod, podGateway } from "../support/node-network.ts";
import {
  type Cluster,
  type CommandResult,
  clusterIp,
  fetchText,
  nodePort,
  pause,
  pods,
} from "./cluster.ts";
import { show, table } from "./screen.ts";
import type { TrafficReport } from "./traffic.ts";

/** A step's expectation in words, and whether it was met. */
export interface Check {
  readonly text: string;
  readonly isGood: boolean;
}

export interface Step {
  readonly title: string;
  readonly run: (cluster: Cluster) => Promise<readonly Check[]>;
}

const clusterUrl = `http://${clusterIp}/`;
const nodePortUrl = `http://${nodeAddress}:${nodePort}/`;
const requestCount = 300;
const leaving = pods[2] as Pod;
const staying = pods.slice(0, 2);
/** How long a pod serves after its removal from the endpoints, as in Kubernetes. */
const terminationMs = 5_000;
/** Number of connections to a pod before its removal. */
const answersBefore = 20;

export const steps: readonly Step[] = [
  { title: `${requestCount} requests from pod-1 to the cluster IP`, run: clusterIpRequests },
  { title: `${requestCount} requests from the client to the node port`, run: nodePortRequests },
  { title: "An endpoint is removed from the manifests during requests", run: removeEndpoint },
  { title: "The endpoint is added again", run: addEndpoint },
  { title: "The operator's view of the kernel", run: kernelState },
  { title: "The operator's view of the daemon", run: daemonState },
  { title: "The operator's commands", run: operatorCommands },
  { title: "The daemon stops, and traffic continues", run: stopDaemon },
  { title: "Clean-up leaves nothing behind", run: cleanUp },
];

async function clusterIpRequests(cluster: Cluster): Promise<readonly Check[]> {
  const report = await cluster.requests("pod-1", clusterUrl, requestCount);
  showDistribution(report, pods);
  return [noFailures(report), evenly(report, pods)];
}

async function nodePortRequests(cluster: Cluster): Promise<readonly Check[]> {
  const report = await cluster.requests("client", nodePortUrl, requestCount);
  showDistribution(report, pods);
  show(`the client is ${clientAddress}; the pods saw ${report.sources.join(", ")}`);
  const isMasqueraded = report.sources.length === 1 && report.sources[0] === podGateway;
  return [
    noFailures(report),
    evenly(report, pods),
    {
      text: `every pod saw the node (${podGateway}), so answers return through it`,
      isGood: isMasqueraded,
    },
  ];
}

async function removeEndpoint(cluster: Cluster): Promise<readonly Check[]> {
  const connectionsBefore = connectionsTo(leaving);
  const traffic = cluster.traffic("client", nodePortUrl, 60);
  await cluster.waitFor(() => connectionsTo(leaving) >= connectionsBefore + answersBefore);
  const beganMs = performance.now();
  cluster.writeManifests(staying);
  await cluster.waitFor(() => !shell("ipvsadm -Sn").includes(`${leaving.address}:8080 -m -w 1`));
  const elapsedMs = performance.now() - beganMs;
  show(`${leaving.name} got no new connections after ${elapsedMs.toFixed(0)} ms.`);
  show("The daemon reads the folder 50 ms after a change. Here, traffic, pods,");
  show("daemon and ipvsadm share one slow processor. For changes from an API");
  show("server, see docs/reports/benchmarks.md");
  show(`${leaving.name} keeps serving for ${terminationMs / 1_000} s, like a terminating pod`);
  await pause(terminationMs);
  await cluster.stopPod(leaving);
  await pause(1_000);
  const report = await traffic.finish();
  const perSecond = report.requests / report.seconds;
  showDistribution(report, pods);
  return [
    {
      text: `${leaving.name} answered until it was removed`,
      isGood: (report.answersByPod[leaving.name] ?? 0) > 0,
    },
    noFailures(report),
    { text: `${perSecond.toFixed(0)} requests per second`, isGood: perSecond > 0 },
    {
      text: `${leaving.name} is draining or no longer a real server`,
      isGood: !shell("ipvsadm -Sn").includes(`${leaving.address}:8080 -m -w 1`),
    },
  ];
}

async function addEndpoint(cluster: Cluster): Promise<readonly Check[]> {
  await cluster.startPod(leaving);
  cluster.writeManifests(pods);
  await cluster.waitFor(
    () => shell("ipvsadm -Sn").split(`${leaving.address}:8080 -m -w 1`).length > 2,
  );
  const report = await cluster.requests("client", nodePortUrl, requestCount);
  showDistribution(report, pods);
  return [noFailures(report), evenly(report, pods)];
}

async function kernelState(): Promise<readonly Check[]> {
  const servers = shell("ipvsadm -Ln");
  const sets = shell("ipset save | grep ^add");
  const addresses = shell("ip -br -4 addr show dev kube-ipvs0");
  show(`$ ipvsadm -Ln\n${servers}`);
  show(`$ ipset save | grep ^add\n${sets}`);
  show(`$ ip -br -4 addr show dev kube-ipvs0\n${addresses}`);
  const wantedEntries = [
    `KUBE-CLUSTER-IP ${clusterIp},tcp:80`,
    `KUBE-NODE-PORT-TCP ${nodePort}`,
    `KUBE-LOOP-BACK ${leaving.address},tcp:8080,${leaving.address}`,
    `KUBE-IPVS-IPS ${clusterIp}`,
  ];
  return [
    {
      text: "cluster IP and node port are virtual servers",
      isGood: [`${clusterIp}:80 rr`, `${nodeAddress}:${nodePort} rr`].every((text) =>
        servers.includes(`TCP  ${text}`),
      ),
    },
    {
      text: "the sets name the Service",
      isGood: wantedEntries.every((entry) => sets.includes(`add ${entry}`)),
    },
    { text: "kube-ipvs0 has the cluster IP", isGood: addresses.includes(`${clusterIp}/32`) },
  ];
}

const shownMetrics =
  /^(kubeproxy_sync_proxy_rules_duration_seconds_count|kube_ipvs_(first_sync_completed|foreign_virtual_servers|draining_real_servers))[ {]/;

async function daemonState(): Promise<readonly Check[]> {
  const mode = await fetchText("http://127.0.0.1:10249/proxyMode");
  const health = await fetchText("http://127.0.0.1:10256/healthz");
  const metrics = (await fetchText("http://127.0.0.1:10249/metrics")) ?? "";
  show(`$ curl localhost:10249/proxyMode\n${mode}`);
  show(`$ curl localhost:10256/healthz | tr , '\\n'\n${health?.replaceAll(",", "\n")}`);
  const lines = metrics.split("\n").filter((line) => shownMetrics.test(line));
  show(`$ curl localhost:10249/metrics    # five of them\n${lines.join("\n")}`);
  return [
    { text: "/proxyMode says ipvs", isGood: mode === "ipvs" },
    { text: "/healthz says healthy", isGood: /"healthy": ?true/.test(health ?? "") },
    {
      text: "/metrics counts syncs",
      isGood: /^kubeproxy_sync_proxy_rules_duration_seconds_count\{.*\} [1-9]/m.test(metrics),
    },
  ];
}

/**
 * Four commands about the same Service: whether it works, which endpoints serve it, what happens to packets, and what
 * would change.
 */
async function operatorCommands(cluster: Cluster): Promise<readonly Check[]> {
  const ask = async (...args: readonly string[]): Promise<CommandResult> => {
    show(`$ kube-ipvs ${args.join(" ")}`);
    const result = await cluster.command(...args);
    show(`${result.output}\n`);
    return result;
  };
  const status = await ask("status");
  const services = await ask("services", "web");
  const explained = await ask("explain", "--from", clientAddress, "--to", `${clusterIp}:80`);
  const plan = await ask("plan");
  const [verdict = ""] = explained.output.split("\n\n");
  const count = pods.length;
  return [
    { text: "status: OK", isGood: status.status === 0 && /^OK, /.test(status.output) },
    {
      text: `services: ${count} endpoints of ${count} get connections`,
      isGood: services.output.includes(` ${count}/${count} `),
    },
    {
      text: "explain: packets from outside are masqueraded, as the pods saw it",
      isGood: verdict
        .replaceAll(/\s+/g, " ")
        .endsWith(`over ${count} of ${count} endpoints and masqueraded`),
    },
    {
      text: "plan: no changes",
      isGood: plan.status === 0 && plan.output.trim() === "No changes.",
    },
  ];
}

async function stopDaemon(cluster: Cluster): Promise<readonly Check[]> {
  const { status, elapsedMs } = await cluster.stopDaemon();
  const report = await cluster.requests("client", nodePortUrl, 30);
  return [
    {
      text: `SIGTERM ended it in ${elapsedMs.toFixed(0)} ms with status ${status}`,
      isGood: status === 0 && elapsedMs < 1_000,
    },
    noFailures(report),
  ];
}

async function cleanUp(cluster: Cluster): Promise<readonly Check[]> {
  show(await cluster.cleanUp());
  const rest = [
    ...linesOf("ipvsadm -Sn"),
    ...linesOf("ipset save"),
    ...linesOf("iptables-save | grep KUBE || true"),
    ...linesOf("ip6tables-save | grep KUBE || true"),
    ...linesOf("ip -o link show dev kube-ipvs0 2>&1 | grep -v 'does not exist' || true"),
  ];
  show(rest.join("\n"));
  return [
    {
      text: "no virtual server, set, rule or link of kube-ipvs is left",
      isGood: rest.length === 0,
    },
  ];
}

/** Number of IPVS connections to a pod, including those closed in the last two minutes. */
function connectionsTo({ address }: Pod): number {
  const lines = linesOf("ipvsadm -Ln").filter((line) => line.includes(`-> ${address}:`));
  const counts = lines.map((line) => line.trim().split(/\s+/).slice(4).map(Number));
  return counts.flat().reduce((sum, count) => sum + count, 0);
}

function linesOf(command: string): readonly string[] {
  return shell(command)
    .split("\n")
    .filter((line) => line !== "");
}

function showDistribution(report: TrafficReport, expected: readonly Pod[]): void {
  const rows = expected.map(({ name, address }) => {
    const count = report.answersByPod[name] ?? 0;
    return [
      name,
      address,
      String(count).padStart(5),
      "#".repeat(Math.round((count * 30) / report.requests)),
    ];
  });
  show(table([["pod", "address", "answers", ""], ...rows]));
}

function noFailures({ failures, requests }: TrafficReport): Check {
  const [first] = failures;
  const cause = first === undefined ? "" : `: ${first}`;
  return {
    text: `${requests} requests, ${failures.length} failed${cause}`,
    isGood: failures.length === 0,
  };
}

/** Whether each pod's share is within a tenth of an even distribution. */
function evenly({ answersByPod, requests }: TrafficReport, expected: readonly Pod[]): Check {
  const share = requests / expected.length;
  const isEven = expected.every(
    ({ name }) => Math.abs((answersByPod[name] ?? 0) - share) <= share / 10,
  );
  return { text: `answers are spread evenly over ${expected.length} pods`, isGood: isEven };
}
