import type { Limits } from "../model/limits.ts";
import type { Holders } from "./claims/claim.ts";
import type { ClaimMemory } from "./claims/claim-memory.ts";

/** Initial planning input in any mode. */
export interface PlanContext {
  /** Milliseconds since the epoch. Changes triggered before this time are excluded from latency metrics. */
  readonly startedAtMs: number;
  /** The owners of contested addresses in an earlier run. Undefined if unknown. */
  readonly held?: Holders;
  /** Unlimited if undefined. */
  readonly limits?: Limits;
  /** If undefined, all claims are equally old and admitted. */
  readonly claims?: ClaimMemory;
}
