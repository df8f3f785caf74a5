/** The API server and what we may do there. Pure. */
import { fail, type Judgement, ok, unknown, warn } from "../check.ts";
import { judging, type NodeFacts, type RightFact } from "../facts.ts";

export function judgeApi({ cluster }: NodeFacts): Judgement {
  if ("skipped" in cluster) return unknown(cluster.skipped);
  if ("value" in cluster.version) {
    const { server, version } = cluster.version.value;
    return ok(`${server} answers: ${version}`);
  }
  const remedy = "the address must work without Services: check --config, --kubeconfig or --master";
  return fail(cluster.version.unreadable, remedy);
}

/** Without it nothing but Events is missed. */
const optionalGroup = /^events(?:\.|$)/;

export function judgeRights({ cluster }: NodeFacts): Judgement {
  if ("skipped" in cluster) return unknown(cluster.skipped);
  return judging(cluster.rights, (rights) => {
    const denied = rights.filter(({ isAllowed }) => !isAllowed);
    if (denied.length === 0) return ok(rightsText(rights));
    const judge = denied.every(({ resource }) => optionalGroup.test(resource)) ? warn : fail;
    return judge(
      `denied: ${rightsText(denied)}`,
      "bind the user of kube-ipvs to the ClusterRole system:node-proxier",
    );
  });
}

/** `services (list, watch), nodes (get)`. */
function rightsText(rights: readonly RightFact[]): string {
  const verbs = new Map<string, string[]>();
  for (const { resource, verb } of rights)
    verbs.set(resource, [...(verbs.get(resource) ?? []), verb]);
  return [...verbs].map(([resource, all]) => `${resource} (${all.join(", ")})`).join(", ");
}
