/** Reads the parts of a pod template that determine what a container may do, from a manifest under deploy/. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";

export interface VolumeMount {
  readonly name: string;
  readonly mountPath: string;
  readonly readOnly?: boolean;
}

export interface SecurityContext {
  readonly privileged?: boolean;
  readonly allowPrivilegeEscalation?: boolean;
  readonly readOnlyRootFilesystem?: boolean;
  readonly runAsUser?: number;
  readonly seccompProfile?: { readonly type: string; readonly localhostProfile?: string };
  readonly capabilities?: { readonly drop?: readonly string[]; readonly add?: readonly string[] };
}

export interface EnvironmentVariable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly fieldRef?: { readonly fieldPath: string } };
}

export interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string; readonly host?: string };
}

export interface ContainerTemplate {
  readonly name: string;
  readonly command: readonly string[];
  readonly env?: readonly EnvironmentVariable[];
  readonly securityContext?: SecurityContext;
  readonly volumeMounts?: readonly VolumeMount[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly startupProbe?: Probe;
  readonly livenessProbe?: Probe;
  readonly readinessProbe?: Probe;
}

export interface Volume {
  readonly name: string;
  readonly configMap?: { readonly name: string };
  readonly hostPath?: { readonly path: string; readonly type?: string };
  readonly emptyDir?: object;
}

export interface PodTemplate {
  readonly hostNetwork?: boolean;
  readonly automountServiceAccountToken?: boolean;
  readonly nodeSelector?: Readonly<Record<string, string>>;
  readonly tolerations?: readonly object[];
  readonly initContainers: readonly ContainerTemplate[];
  readonly containers: readonly ContainerTemplate[];
  readonly volumes: readonly Volume[];
}

/** The fields that objects of all kinds have in common. */
export interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly [field: string]: unknown;
}

/** The objects of `deploy/manifests/NAME.yaml`. */
export function readManifests(name: string): readonly Manifest[] {
  const path = join(import.meta.dirname, "../../../deploy/manifests", `${name}.yaml`);
  return parseAllDocuments(readFileSync(path, "utf8")).map((document) => document.toJS());
}

interface DaemonSetSpec extends Rollout {
  readonly template: { readonly spec: PodTemplate };
}

/** The spec of the first DaemonSet. The chart's second one cleans up nodes. */
function daemonSetOf(manifests: readonly Manifest[]): DaemonSetSpec {
  const found = manifests.find(({ kind }) => kind === "DaemonSet");
  if (found === undefined) throw new Error("There is no DaemonSet");
  return found["spec"] as DaemonSetSpec;
}

/** The pod template of the first DaemonSet. */
export function podOf(manifests: readonly Manifest[]): PodTemplate {
  return daemonSetOf(manifests).template.spec;
}

/** The update strategy of the first DaemonSet. */
export interface Rollout {
  readonly minReadySeconds?: number;
  readonly updateStrategy: {
    readonly type: string;
    readonly rollingUpdate?: { readonly maxUnavailable?: number | string };
  };
}

export function rolloutOf(manifests: readonly Manifest[]): Rollout {
  return daemonSetOf(manifests);
}

/** The mounted files of the manifest's ConfigMap, as file name → text. */
export function configOf(manifests: readonly Manifest[]): Readonly<Record<string, string>> {
  const mounted = podOf(manifests).volumes.find(({ configMap }) => configMap !== undefined);
  const [found, ...more] = manifests.filter(
    ({ kind, metadata }) => kind === "ConfigMap" && metadata.name === mounted?.configMap?.name,
  );
  if (found === undefined || more.length > 0) throw new Error("There is not exactly one ConfigMap");
  return found["data"] as Readonly<Record<string, string>>;
}
