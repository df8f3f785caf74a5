/** Reads the properties of a daemon from its pod. Pure. */
import type { V1Container, V1Pod } from "@kubernetes/client-node";
import { pathOf } from "../api/decode/fields.ts";
import type { PodPlace } from "./cluster/exec-shell.ts";

export interface Daemon {
  readonly nodeName: string;
  readonly place: PodPlace;
  readonly uid: string;
  readonly image: string;
  /** The daemon's arguments, with variables expanded. */
  readonly flags: readonly string[];
  /** User name of the service account: `system:serviceaccount:kube-system:kube-ipvs`. */
  readonly account: string;
  readonly metricsPort: number;
  readonly isReady: boolean;
}

const names = ["kube-ipvs", "kube-proxy"];
const usualMetricsPort = 10_249;

/** Returns the daemon in a pod. Undefined if the pod has no node yet. */
export function daemonOf(pod: V1Pod): Daemon | undefined {
  const { metadata = {}, spec } = pod;
  const containers = spec?.containers ?? [];
  const container = containers.find(({ name }) => names.includes(name)) ?? containers[0];
  if (spec?.nodeName === undefined || container === undefined) return undefined;
  const { name = "", namespace = "", uid = "" } = metadata;
  const { command = [], args = [], image = "", ports = [] } = container;
  const metricsPort = ports.find((port) => port.name === "metrics")?.containerPort;
  return {
    nodeName: spec.nodeName,
    place: { namespace, pod: name, container: container.name },
    uid,
    image,
    flags: [...command, ...args]
      .slice(1)
      .map((word) => filledIn(word, variablesOf(container, pod))),
    account: `system:serviceaccount:${namespace}:${spec.serviceAccountName ?? "default"}`,
    metricsPort: metricsPort ?? usualMetricsPort,
    isReady: isPodReady(pod),
  };
}

export function isPodReady({ metadata, status }: V1Pod): boolean {
  if (metadata?.deletionTimestamp !== undefined) return false;
  const conditions = status?.conditions ?? [];
  return conditions.some((one) => one.type === "Ready" && one.status === "True");
}

/** Expands variables such as `$(NODE_NAME)`. As in Kubernetes, unknown variables remain unchanged. */
function filledIn(word: string, variables: ReadonlyMap<string, string>): string {
  return word.replace(/\$\(([^)]+)\)/g, (whole, name: string) => variables.get(name) ?? whole);
}

function variablesOf({ env = [] }: V1Container, pod: V1Pod): ReadonlyMap<string, string> {
  const pairs = env.map(({ name, value = "", valueFrom }): readonly [string, string] => {
    const field = valueFrom?.fieldRef?.fieldPath;
    const found = field === undefined ? value : pathOf(pod, ...field.split("."));
    return [name, typeof found === "string" ? found : ""];
  });
  return new Map(pairs);
}
