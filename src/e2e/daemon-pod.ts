/** What the pod of a daemon says about it. Pure. */
import { pathOf } from "../api/decode/fields.ts";
import type { KubeObject } from "./cluster/cluster-objects.ts";
import type { PodPlace } from "./cluster/exec-shell.ts";

/** The daemon of one node. */
export interface Daemon {
  readonly nodeName: string;
  readonly place: PodPlace;
  readonly uid: string;
  readonly image: string;
  /** What it was started with, variables filled in. */
  readonly flags: readonly string[];
  /** `system:serviceaccount:kube-system:kube-ipvs`. */
  readonly account: string;
  readonly metricsPort: number;
  readonly isReady: boolean;
}

const names = ["kube-ipvs", "kube-proxy"];
const usualMetricsPort = 10_249;

/** Undefined: no node runs it. */
export function daemonOf(pod: KubeObject): Daemon | undefined {
  const nodeName = pathOf(pod, "spec", "nodeName");
  const containers = listOf(pathOf(pod, "spec", "containers"));
  const container = containers.find((one) => names.includes(textOf(one, "name"))) ?? containers[0];
  if (typeof nodeName !== "string" || container === undefined) return undefined;
  const namespace = textOf(pod, "metadata", "namespace");
  const command = [
    ...listOf(pathOf(container, "command")),
    ...listOf(pathOf(container, "args")),
  ].map(String);
  const account = textOf(pod, "spec", "serviceAccountName") || "default";
  return {
    nodeName,
    place: {
      namespace,
      pod: textOf(pod, "metadata", "name"),
      container: textOf(container, "name"),
    },
    uid: textOf(pod, "metadata", "uid"),
    image: textOf(container, "image"),
    flags: command.slice(1).map((word) => filledIn(word, variablesOf(container, pod))),
    account: `system:serviceaccount:${namespace}:${account}`,
    metricsPort: metricsPortOf(container),
    isReady: isPodReady(pod),
  };
}

export function isPodReady(pod: KubeObject): boolean {
  if (pathOf(pod, "metadata", "deletionTimestamp") !== undefined) return false;
  return listOf(pathOf(pod, "status", "conditions")).some(
    (one) => textOf(one, "type") === "Ready" && textOf(one, "status") === "True",
  );
}

/** The Kubernetes form of a variable in a command: `$(NODE_NAME)`; one that is not known stays as it is. */
function filledIn(word: string, variables: ReadonlyMap<string, string>): string {
  return word.replace(/\$\(([^)]+)\)/g, (whole, name: string) => variables.get(name) ?? whole);
}

function variablesOf(container: unknown, pod: KubeObject): ReadonlyMap<string, string> {
  const pairs = listOf(pathOf(container, "env")).map((entry): readonly [string, string] => {
    const field = textOf(entry, "valueFrom", "fieldRef", "fieldPath");
    const value = field === "" ? textOf(entry, "value") : textOf(pod, ...field.split("."));
    return [textOf(entry, "name"), value];
  });
  return new Map(pairs);
}

function metricsPortOf(container: unknown): number {
  const ports = listOf(pathOf(container, "ports"));
  const port = ports.find((one) => textOf(one, "name") === "metrics");
  return Number(pathOf(port, "containerPort") ?? usualMetricsPort);
}

/** Empty: absent. */
export function textOf(value: unknown, ...names: readonly string[]): string {
  const found = pathOf(value, ...names);
  return typeof found === "string" ? found : "";
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
