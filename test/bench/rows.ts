/** What a case measured: one row of the table each. */

/** A count holds or does not; a figure depends on the machine. */
export type RowKind = "count" | "figure";

export interface Target {
  /** As in the table of targets. */
  readonly text: string;
  /** The measured value must not be above. */
  readonly most?: number;
  readonly least?: number;
}

export interface Row {
  /** Whose figure it is: `kube-ipvs`, `limit`, `tools`, `baseline`, `forwarder`, or `peer`, the other proxy. */
  readonly subject: string;
  readonly what: string;
  readonly unit: string;
  readonly value: number;
  readonly kind: RowKind;
  readonly target?: Target;
  /** Each measurement, in the row's unit. */
  readonly samples?: readonly number[];
  /** Changes of the kernel, by netlink. */
  readonly messages?: number;
  /** Processes that were started. */
  readonly processes?: number;
  readonly residentMb?: number;
}

export interface Growth {
  readonly subject: string;
  readonly services: number;
  readonly endpoints: number;
  readonly firstSyncMs: number;
  readonly changeCpuMs: number;
  readonly changeP50Ms: number;
  readonly changeP99Ms: number;
  readonly residentMb: number;
  readonly peakMb: number;
  readonly verificationCpuMs?: number;
}

export interface CaseResult {
  readonly name: string;
  readonly title: string;
  /** Of the program that was measured. */
  readonly version: string;
  readonly startedAt: string;
  readonly elapsedSeconds: number;
  /** Load average of the machine over a minute, before and after. */
  readonly load: readonly number[];
  readonly rows: readonly Row[];
  readonly growth: readonly Growth[];
  /** The other proxy and its version. */
  readonly peer?: string;
  /** Why the case could not be measured to its end. */
  readonly failure?: string;
}

/** Of rows that begin so, the peer's row of the same name is the target. Pure. */
export function notAbove(
  ours: readonly Row[],
  peers: readonly Row[],
  beginning: string,
): readonly Row[] {
  return ours.map((row) => {
    const peer = peers.find(({ what }) => what === row.what);
    if (peer === undefined || !row.what.startsWith(beginning)) return row;
    return { ...row, target: { text: "≤ the peer's", most: peer.value } };
  });
}

export type Verdict = "pass" | "MISS" | "";

export function verdictOf({ target, value }: Row): Verdict {
  if (target === undefined) return "";
  const isPassed = value <= (target.most ?? Infinity) && value >= (target.least ?? -Infinity);
  return isPassed ? "pass" : "MISS";
}

export interface Summary {
  readonly median: number;
  readonly p95: number;
  readonly least: number;
  readonly most: number;
}

/** Undefined without samples. */
export function summarize(samples: readonly number[] | undefined): Summary | undefined {
  if (samples === undefined || samples.length === 0) return undefined;
  return {
    median: quantile(samples, 0.5),
    p95: quantile(samples, 0.95),
    least: Math.min(...samples),
    most: Math.max(...samples),
  };
}

/** The smallest sample that is not below the share `q` of all; 0 where there is none. */
export function quantile(samples: readonly number[], q: number): number {
  const sorted = samples.toSorted((one, other) => one - other);
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? 0;
}
