import type { Holders } from "./claim.ts";

/** Carries over a restart who holds the addresses and ports that several Services claim. */
export interface HolderRecord {
  /** What an earlier run of this boot left; empty where nothing is recorded. */
  readonly held: Holders;
  /** Records these in place of all before; called after each sync that worked. Does not wait, never throws. */
  keepHolders(...all: readonly Holders[]): void;
}

export const noHolderRecord: HolderRecord = { held: new Map(), keepHolders() {} };
