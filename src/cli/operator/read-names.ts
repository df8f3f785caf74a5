/** Names of Services for `kube-ipvs top`: the daemon knows them, else the objects of the cluster or manifests. */
import { parseJson } from "../../base/parse-json.ts";
import type { Config } from "../../config/config.ts";
import type { ServiceRow } from "../../daemon/operator/answers.ts";
import { askDaemon } from "../../daemon/operator/ask-daemon.ts";
import { servicesTarget } from "../../daemon/operator/routes.ts";
import type { NamesAnswer } from "../../top/owners.ts";
import type { WithoutDaemon } from "./question.ts";

const target = servicesTarget({ hasEndpoints: false, hasConnections: false });

/** Asks the daemon, else works it out where it is known where objects come from. Rejects where that fails. */
export async function readNames(
  config: Pick<Config, "operatorSocketPath" | "objectsFrom">,
  withoutDaemon: WithoutDaemon,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<NamesAnswer> {
  const { operatorSocketPath: path } = config;
  const reply = await askDaemon(path, target);
  if (reply.kind === "answer") return namedBy(reply.text);
  if (reply.kind === "absent" && hasObjects(config, environment)) {
    return namedBy(await withoutDaemon(target));
  }
  const advice =
    reply.kind === "absent"
      ? "; without one, --config, --kubeconfig or --manifests says where Services are"
      : "";
  return { kind: "unnamed", reason: `kube-ipvs on ${path}: ${reply.reason}${advice}` };
}

function namedBy(text: string): NamesAnswer {
  const { items } = parseJson(text) as { readonly items: readonly ServiceRow[] };
  return { kind: "named", rows: items };
}

/** The command line says where objects come from, or this is a pod. */
function hasObjects(
  { objectsFrom }: Pick<Config, "objectsFrom">,
  environment: Readonly<Record<string, string | undefined>>,
): boolean {
  if (objectsFrom.kind === "manifests") return true;
  const { kubeconfigPath = "", masterUrl = "" } = objectsFrom;
  if (kubeconfigPath !== "" || masterUrl !== "") return true;
  return environment["KUBERNETES_SERVICE_HOST"] !== undefined;
}
