import type { IpAddress } from "../base/ip.ts";
import type { PortAdmission } from "./claims/port-admission.ts";

/** What planning asks about the node and the time, and only for Services that are tuned. */
export interface TuningFacts {
  /** Schedulers that Services ask for and the kernel does not have. */
  readonly missingSchedulers: ReadonlySet<string>;
  /** Of Nodes that have the label kube-ipvs.io/weight. */
  readonly nodeWeights: ReadonlyMap<string, number>;
  /** How far a new endpoint's weight has grown, from 1 up to `rampSteps`; undefined: it is not new. */
  readonly rampStep: (address: IpAddress) => number | undefined;
  /** If undefined, every claim is admitted. */
  readonly admission?: Pick<PortAdmission, "admit">;
}

/** Nothing is known: the kernel has every scheduler, and no endpoint is new. */
export const noTuningFacts: TuningFacts = {
  missingSchedulers: new Set(),
  nodeWeights: new Map(),
  rampStep: () => undefined,
};
