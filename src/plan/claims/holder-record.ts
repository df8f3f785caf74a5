import type { Holders } from "./claim.ts";

/** Preserves the owners of contested addresses and ports across a restart. */
export interface HolderRecord {
  /** The owners that an earlier run recorded since the node booted. Empty if there is no record. */
  readonly held: Holders;
  /**
   * Replaces everything recorded before. Called after each successful sync. Returns without waiting and never throws.
   */
  keepHolders(...all: readonly Holders[]): void;
}

export const noHolderRecord: HolderRecord = { held: new Map(), keepHolders() {} };
