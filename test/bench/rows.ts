/** A case's results, each with its own table row. */

/** Counts are right or wrong. Figures depend on the machine. */
export type RowKind = "count" | "figure";

export interface Target {
  /** The text in the target table. */
  readonly text: string;
  /** The maximum of the measured value. */
  readonly most?: number;
  readonly least?: number;
}

export interface Row {
  /** The measured program: `kube-ipvs`, `limit`, `tools`, `baseline`, `forwarder`, or `peer` (the other proxy). */
  readonly subject: string;
  readonly what: string;
  readonly unit: string;
  readonly value: number;
  readonly kind: RowKind;
  readonly target?: Target;
  /** Each measurement, in the row's unit. */
  readonly samples?: readonly number[];
  /** Number of netlink messages that change the kernel state. */
  readonly messages?: number;
  /** Number of started processes. */
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
  /** Version of the measured program. */
  readonly version: string;
  readonly startedAt: string;
  readonly elapsedSeconds: number;
  /** The machine's one-minute load average before and after the case. */
  readonly load: readonly number[];
  readonly rows: readonly Row[];
  readonly growth: readonly Growth[];
  /** The other proxy and its version. */
  readonly peer?: string;
  /** Why the case did not finish. */
  readonly failure?: string;
}

/** Separates a figure from what it is divided by. */
export const relativeTo = ", relative to ";

/** Sets the target of rows with this prefix to the peer's row with the same name. Pure. */
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

/** Undefined if there are no samples. */
export function summarize(samples: readonly number[] | undefined): Summary | undefined {
  if (samples === undefined || samples.length === 0) return undefined;
  return {
    median: quantile(samples, 0.5),
    p95: quantile(samples, 0.95),
    least: Math.min(...samples),
    most: Math.max(...samples),
  };
}

/**
 * The quantile `q`: the smallest sample that is at least as large as this share of all samples. 0 if there are none.
 */
export function quantile(samples: readonly number[], q: number): number {
  const sorted = samples.toSorted((one, other) => one - other);
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? 0;
}

/** A figure of one way in one round. */
export interface Figure {
  readonly what: string;
  readonly unit: string;
  readonly value: number;
  readonly messages?: number;
}

/** Medians for each way from its figures in each round, and the median ratios to the way `base` within rounds. */
export function roundRows(
  measured: ReadonlyMap<string, readonly (readonly Figure[])[]>,
  base: string,
): readonly Row[] {
  const samplesOf = (way: string, at: number): readonly number[] =>
    (measured.get(way) ?? []).map((figures) => figures[at]?.value ?? Number.NaN);
  const rowOf = (subject: string, { what, unit }: Figure, samples: readonly number[]): Row => {
    return { subject, what, unit, samples, kind: "figure", value: quantile(samples, 0.5) };
  };
  const ways = [...measured.keys()];
  return (measured.get(base)?.[0] ?? []).flatMap((figure, at) => {
    const ofBase = samplesOf(base, at);
    return [
      ...ways.map((way): Row => {
        const { messages } = measured.get(way)?.at(-1)?.[at] ?? {};
        const row = rowOf(way, figure, samplesOf(way, at));
        return messages === undefined ? row : { ...row, messages };
      }),
      ...ways
        .filter((way) => way !== base)
        .map((way) => {
          const ratios = samplesOf(way, at)
            .slice(0, ofBase.length)
            .map((value, round) => value / (ofBase[round] ?? value));
          return rowOf(way, { what: figure.what + relativeTo + base, unit: "×", value: 0 }, ratios);
        }),
    ];
  });
}
