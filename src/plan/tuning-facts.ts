import type { HostPort, IpAddress } from "../base/ip.ts";
import type { WeightAnswer } from "../model/tuning.ts";
import type { ServerKey } from "../state/virtual-server.ts";
import type { PortAdmission } from "./claims/port-admission.ts";

/** The Nodes that have the same value of a label as this node, including this node. */
export interface NodeGroup {
  /** Empty if this Node does not have the label. */
  readonly nodeNames: ReadonlySet<string>;
  /** Number of all Nodes. */
  readonly nodeCount: number;
  /** Whether any Node has the label. */
  readonly isLabelUsed: boolean;
}

/** Facts about the node and the current time, which planning needs for Services with tuning. */
export interface TuningFacts {
  /** Schedulers that Services request but the kernel does not have. */
  readonly missingSchedulers: ReadonlySet<string>;
  /** Weights of Nodes with the label kube-ipvs.io/weight, by Node name. */
  readonly nodeWeights: ReadonlyMap<string, number>;
  /** For each label, the Nodes that have the same value of it as this node. See `NodeTraits.groups`. */
  readonly nodeGroups: ReadonlyMap<string, NodeGroup>;
  /**
   * Current step of a new endpoint's growing weight, at least 1 and less than `rampSteps`. Undefined if the endpoint is
   * not new.
   */
  readonly rampStep: (address: IpAddress) => number | undefined;
  /** The weight that an endpoint reported, or why it reported none. Undefined before enough requests have ended. */
  readonly answerOf: (address: IpAddress) => WeightAnswer | undefined;
  /** Whether an endpoint (by key) is ejected: it receives no new connections, because earlier ones failed. */
  readonly isEjected: (endpointKey: HostPort) => boolean;
  /** The addresses of other Nodes, by Node name. Empty unless a Service uses tunnel forwarding. */
  readonly nodeAddresses: ReadonlyMap<string, readonly IpAddress[]>;
  /** Whether another Service has the virtual server of a port range. If undefined, none has. */
  readonly isRangeLost?: (key: ServerKey) => boolean;
  /** If undefined, every claim is admitted. */
  readonly admission?: Pick<PortAdmission, "admit">;
}

/** Facts from the list of Nodes. */
export type NodeFacts = Pick<TuningFacts, "nodeWeights" | "nodeGroups" | "nodeAddresses">;

/** The defaults: the kernel has every scheduler, and no endpoint is new. */
export const noTuningFacts: TuningFacts = {
  missingSchedulers: new Set(),
  nodeWeights: new Map(),
  nodeGroups: new Map(),
  nodeAddresses: new Map(),
  rampStep: () => undefined,
  answerOf: () => undefined,
  isEjected: () => false,
};
