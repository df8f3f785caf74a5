/** Checks the API server, the clock, and this process's permissions. */
import { counted } from "../../base/counted.ts";
import { errorText } from "../../base/error-text.ts";
import { type Check, check, fail, listed, naming, ok, warn } from "../check.ts";
import type { Cluster, Node, RightFact } from "../node.ts";

const smallSkewMs = 5_000;
const largeSkewMs = 60_000;

/** Whether Services work without this permission: to write Events, remove the Node's taint, or check scrapers' tokens. */
function isOptional(right: RightFact): boolean {
  return right.resource.startsWith("events.") || isForTaint(right) || isForReview(right);
}

function isForReview({ resource }: RightFact): boolean {
  return /^(?:tokenreviews|subjectaccessreviews)\b/.test(resource);
}

function isForTaint({ resource, verb }: RightFact): boolean {
  return resource === "nodes" && verb === "patch";
}

const roleRemedy = "bind kube-ipvs's user to the ClusterRole system:node-proxier";
const reviewRemedy = "bind kube-ipvs's user to the ClusterRole system:auth-delegator";
const taintRemedy =
  "bind kube-ipvs's user to a ClusterRole that may patch nodes, or set kubeIpvs.removeNotReadyTaint: false";

/** Returns the node's cluster. Throws if no API server is configured. */
export function clusterOf({ cluster }: Pick<Node, "cluster">): Cluster {
  if ("skipped" in cluster) throw new Error(cluster.skipped);
  return cluster;
}

export const clusterChecks: readonly Check[] = [
  check({
    name: "clock",
    needs: ["cluster"],
    why: "if the clock is wrong, certificates and tokens are rejected",
    read: (node) => clusterOf(node).version(),
    judge({ aheadMs }) {
      const skewMs = Math.abs(aheadMs);
      const evidence = `${Math.round(skewMs / 1_000)} s ${aheadMs < 0 ? "behind" : "ahead of"} the API server`;
      if (skewMs < smallSkewMs) return ok(evidence);
      const verdict = skewMs >= largeSkewMs ? fail : warn;
      return verdict(evidence, "synchronize the clocks: timedatectl, chronyc tracking");
    },
  }),
  check({
    name: "api-server",
    needs: ["cluster"],
    why: "kube-ipvs reads Services and EndpointSlices from the API server",
    read: async (node) => {
      const { version } = clusterOf(node);
      const answer = await version().catch(errorText);
      const { virtualIps } = await node.addresses().catch(() => ({ virtualIps: [] }));
      return { answer, virtualIps };
    },
    judge({ answer, virtualIps }) {
      if (typeof answer !== "string") {
        const { server, version } = answer;
        const evidence = `${server} answers: ${version}`;
        const host = new URL(server).hostname.replaceAll(/[[\]]/g, "");
        if (!virtualIps.some((address) => address === host)) return ok(evidence);
        return warn(
          `${evidence}; this node itself serves ${host}, so kube-ipvs cannot start after a reboot`,
          "set --kubeconfig or --master to an address that works without Services",
        );
      }
      return fail(
        answer,
        "the address must work without Services: check --config, --kubeconfig or --master",
      );
    },
  }),
  check({
    name: "api-rights",
    needs: ["cluster"],
    why: "without permission to read Services, kube-ipvs cannot serve them",
    read: (node) => clusterOf(node).rights(),
    judge(rights) {
      const denied = rights.filter(({ isAllowed }) => !isAllowed);
      if (denied.length === 0) return ok(rightsText(rights));
      const verdict = denied.every(isOptional) ? warn : fail;
      return verdict(`denied: ${rightsText(denied)}`, remedyFor(denied));
    },
  }),
  check({
    name: "dead-nodes",
    needs: ["cluster"],
    why: "connections to endpoints on a dead Node time out until Kubernetes marks the endpoints not ready",
    read: (node) => clusterOf(node).deadNodes(),
    judge(nodes) {
      if (nodes.length === 0) return ok("no ready endpoint is on a Node that is not ready");
      const texts = nodes.map(
        ({ name, readyEndpoints, services }) =>
          `Node ${name} is not ready, but has ${counted(readyEndpoints, "ready endpoint")} (${listed(services)})`,
      );
      const judgement = warn(
        listed(texts),
        "repair the Node, or delete it: kubectl describe node NODE; if its endpoints stay ready for minutes, check kube-controller-manager or the software that writes these EndpointSlices",
      );
      return naming(
        judgement,
        nodes.map(({ name }) => name),
        nodes.flatMap(({ services }) => services),
      );
    },
  }),
];

function remedyFor(denied: readonly RightFact[]): string {
  if (denied.every(isForTaint)) return taintRemedy;
  return denied.every(isForReview) ? reviewRemedy : roleRemedy;
}

/** Formats permissions: `services (list, watch), nodes (get)`. */
function rightsText(rights: readonly RightFact[]): string {
  const byResource = Map.groupBy(rights, ({ resource }) => resource);
  return [...byResource]
    .map(([resource, all]) => `${resource} (${all.map(({ verb }) => verb).join(", ")})`)
    .join(", ");
}
