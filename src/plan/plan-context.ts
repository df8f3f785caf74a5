import type { Limits } from "../model/limits.ts";
import type { Holders } from "./claims/claim.ts";
import type { ClaimMemory } from "./claims/claim-memory.ts";

/** What the plan of any mode starts with. */
export interface PlanContext {
  /** Milliseconds since the epoch; changes triggered before say nothing about our speed. */
  readonly startedAtMs: number;
  /** What Services held in an earlier run; undefined if that is unknown. */
  readonly held?: Holders;
  /** Undefined if there are none. */
  readonly limits?: Limits;
  /** If undefined, all claims are equally old and admitted. */
  readonly claims?: ClaimMemory;
}
