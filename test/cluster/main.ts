/**
 * Starts a cluster and runs Kubernetes' own network tests on it: see README.md.
 *
 *     node test/cluster/main.ts --kubernetes FOLDER [--focus RE] [--skip RE] [--proxy kube-ipvs|kube-proxy]
 *       [--mode ipvs|iptables] [--nodes N] [--families ipv4|dual] [--stay]
 *
 * Exit status 1: a spec failed. 2: the cluster could not be brought up. 130: interrupted.
 */
import { resolve } from "node:path";
import { grantedRules, type ProxyRules, type RoleObject, readAuditLog } from "./audit.ts";
import { kubectl, type LabCluster } from "./cluster.ts";
import { auditLog } from "./control-plane.ts";
import type { SpecResult } from "./ginkgo.ts";
import { tryManifests } from "./manifests.ts";
import { networkOf } from "./network.ts";
import { type Options, oneOf, text } from "./options.ts";
import { installKubeIpvs, notReadyTaint, packImage } from "./proxy.ts";
import { labVersions } from "./record-run.ts";
import { countOf, type Run, withoutPaths } from "./report.ts";
import { addRun } from "./report-files.ts";
import { defaultSkip } from "./skip-reasons.ts";
import { runSpecs } from "./specs.ts";
import {
  bringUp,
  build,
  commitAndDate,
  project,
  runProgram,
  startLoadBalancer,
} from "./with-cluster.ts";

const defaults = {
  focus: String.raw`\[sig-network\] Services`,
  skip: defaultSkip,
  nodes: "2",
  families: "ipv4",
} as const;

const known = {
  focus: text(defaults.focus),
  skip: text(defaults.skip),
  proxy: oneOf("kube-ipvs", "kube-proxy"),
  mode: oneOf("ipvs", "iptables"),
  nodes: oneOf(defaults.nodes, "3", "4", "5", "6"),
  families: oneOf(defaults.families, "dual"),
};
type RunOptions = Options<keyof typeof known>;

/** Brings the cluster up and runs the specs on it. */
async function conformance(
  cluster: LabCluster,
  options: RunOptions,
): Promise<readonly SpecResult[]> {
  const { kubernetes } = cluster;
  const isOurs = options.proxy === "kube-ipvs";
  await bringUp(cluster, {
    kubeProxy: isOurs ? undefined : kubernetes.program("kube-proxy"),
    mode: options.mode,
    ...(isOurs && { taints: [notReadyTaint] }),
    images: [...(isOurs ? [packImage(build)] : []), ...kubernetes.images],
  });
  if (isOurs) await installKubeIpvs(cluster, options.mode);
  startLoadBalancer(cluster);
  return runSpecs(cluster, options);
}

/** The run's identity, recorded before it has results, because a different commit may be checked out when it ends. */
function describeRun(cluster: LabCluster, options: RunOptions): Omit<Run, "specs"> {
  const names = ["focus", "skip", "nodes", "families"] as const;
  const changed = names.filter((name) => options[name] !== defaults[name]);
  return {
    proxy: options.proxy,
    mode: options.mode,
    ...commitAndDate(),
    ...labVersions(cluster),
    options: changed.map((name) => `${name.toUpperCase()}='${options[name]}'`).join(" "),
  };
}

/** The rules of all ClusterRoles that are bound to a proxy's users or their groups. */
async function rulesOfProxy(cluster: LabCluster): Promise<ProxyRules> {
  const kinds = "clusterroles,clusterrolebindings";
  const listed = JSON.parse((await kubectl(cluster, "get", kinds, "-o", "json")) ?? "{}") as {
    readonly items?: readonly RoleObject[];
  };
  return grantedRules(listed.items ?? []);
}

async function run(cluster: LabCluster, options: RunOptions): Promise<number> {
  const description = describeRun(cluster, options);
  const specs = await conformance(cluster, options);
  const requests = readAuditLog(auditLog(cluster), await rulesOfProxy(cluster));
  const isOurs = options.proxy === "kube-ipvs";
  const manifests = isOurs ? await tryManifests(cluster) : undefined;
  const result = { ...description, specs, requests, ...(manifests && { manifests }) };
  addRun(withoutPaths(result, { KUBERNETES: resolve(options.kubernetes), PROJECT: project }));
  const failed = countOf(result, "failed");
  console.log(
    `${countOf(result, "passed")} passed, ${failed} failed, ${countOf(result, "skipped")} skipped`,
  );
  const refused = (manifests ?? []).filter(({ failure }) => failure !== "");
  for (const { name, failure } of refused) console.log(`not accepted: ${name}: ${failure}`);
  return failed + refused.length === 0 ? 0 : 1;
}

await runProgram(known, run, ({ nodes, families }) =>
  networkOf(Number(nodes), families === "dual" ? ["IPv4", "IPv6"] : ["IPv4"]),
);
