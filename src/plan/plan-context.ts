import type { Limits } from "../model/limits.ts";
import type { Holders } from "./claims/claim.ts";
import type { ClaimMemory } from "./claims/claim-memory.ts";

/** Planning input that all modes have in common. */
export interface PlanContext {
  /** Milliseconds since the epoch. Changes triggered before this time are excluded from latency metrics. */
  readonly startedAtMs: number;
  /** The owners of contested addresses in an earlier run. Undefined if unknown. */
  readonly held?: Holders;
  /** The limits on Services. If undefined, nothing is limited. */
  readonly limits?: Limits;
  /** If undefined, all claims are treated as equally old, and all of them are admitted. */
  readonly claims?: ClaimMemory;
}
