import type { IpAddress } from "../base/ip.ts";
import type { PortAdmission } from "./claims/port-admission.ts";

/** Facts about the node and the current time, which planning needs for Services with tuning. */
export interface TuningFacts {
  /** Schedulers that Services request but the kernel does not have. */
  readonly missingSchedulers: ReadonlySet<string>;
  /** Weights of Nodes with the label kube-ipvs.io/weight, by Node name. */
  readonly nodeWeights: ReadonlyMap<string, number>;
  /**
   * Current step of a new endpoint's weight, from 1 to less than `rampSteps`. Undefined if the endpoint is not new.
   */
  readonly rampStep: (address: IpAddress) => number | undefined;
  /** If undefined, every claim is admitted. */
  readonly admission?: Pick<PortAdmission, "admit">;
}

/** The defaults: the kernel has every scheduler, and no endpoint is new. */
export const noTuningFacts: TuningFacts = {
  missingSchedulers: new Set(),
  nodeWeights: new Map(),
  rampStep: () => undefined,
};
