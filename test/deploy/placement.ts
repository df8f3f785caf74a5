/** On which nodes a DaemonSet runs, by the node's label `kube-ipvs.io/proxy`. */
import type { Manifest } from "../support/container/pod.ts";

export const proxyLabel = "kube-ipvs.io/proxy";

interface Requirement {
  readonly key: string;
  readonly operator: string;
  readonly values: readonly string[];
}
export type NodeSelectorTerms = readonly { readonly matchExpressions: readonly Requirement[] }[];

export interface DaemonSet {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly updateStrategy: { readonly type: string };
    readonly template: {
      readonly spec: {
        readonly nodeSelector?: Readonly<Record<string, string>>;
        readonly affinity?: {
          readonly nodeAffinity: {
            readonly requiredDuringSchedulingIgnoredDuringExecution: {
              readonly nodeSelectorTerms: NodeSelectorTerms;
            };
          };
        };
      };
    };
  };
}

export function daemonSetsOf(objects: readonly Manifest[]): readonly DaemonSet[] {
  return objects.filter(({ kind }) => kind === "DaemonSet") as unknown as readonly DaemonSet[];
}

export function termsOf({ spec }: DaemonSet): NodeSelectorTerms {
  const { affinity } = spec.template.spec;
  return (
    affinity?.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms ?? []
  );
}

/** Whether a pod runs on a Linux node with this value of the label, and no other labels. */
export function runsOn(daemonSet: DaemonSet, label: string | undefined): boolean {
  const labels = new Map([["kubernetes.io/os", "linux"]]);
  if (label !== undefined) labels.set(proxyLabel, label);
  const { nodeSelector = {} } = daemonSet.spec.template.spec;
  const isMet = ({ key, operator, values }: Requirement): boolean => {
    const isIn = values.includes(labels.get(key) ?? "");
    return operator === "In" ? isIn : !isIn;
  };
  const terms = termsOf(daemonSet);
  return (
    Object.entries(nodeSelector).every(([key, value]) => labels.get(key) === value) &&
    (terms.length === 0 || terms.some((term) => term.matchExpressions.every(isMet)))
  );
}
