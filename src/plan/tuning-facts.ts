/** What planning asks about the node and the time, and only for Services that are tuned. */
export interface TuningFacts {
  /** Schedulers that Services ask for and the kernel does not have. */
  readonly missingSchedulers: ReadonlySet<string>;
}

/** Nothing is known: the kernel has every scheduler. */
export const noTuningFacts: TuningFacts = { missingSchedulers: new Set() };
