/** A soak's samples, and whether they grow. Pure, except {@link takeSample}. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

export interface Sample {
  readonly minute: number;
  /** The name of the step's fault, or `no fault`. */
  readonly fault: string;
  /** From the end of the step's changes until the kernel state equals the plan. */
  readonly repairMs: number;
  /** Kernel objects that third parties changed since the program's start, as the program counts them. */
  readonly drifts: number;
  readonly memoryMiB: number;
  readonly heapMiB: number;
  readonly files: number;
  readonly sockets: number;
  /** Event-loop handles other than timers: sockets, listeners, requests. */
  readonly handles: number;
  readonly timers: number;
  /** Counted since the program's start. */
  readonly delayMs: {
    readonly p50: number;
    readonly p99: number;
    readonly p999: number;
    readonly worst: number;
  };
}

interface Probe {
  readonly active: Readonly<Record<string, number>>;
  readonly delayMs: Sample["delayMs"];
  readonly heapUsed: number;
  readonly rss: number;
}

const mebibyte = 1_048_576;

/** `probeFile` is the file that soak-probe.cjs writes in the program. */
export function takeSample(
  pid: number,
  probeFile: string,
): Omit<Sample, "minute" | "fault" | "repairMs" | "drifts"> {
  const { active, delayMs, heapUsed, rss } = JSON.parse(readFileSync(probeFile, "utf8")) as Probe;
  const links = readdirSync(`/proc/${pid}/fd`).map((name) => linkOf(`/proc/${pid}/fd/${name}`));
  const { Timeout: timers = 0, ...handles } = active;
  return {
    delayMs,
    memoryMiB: rss / mebibyte,
    heapMiB: heapUsed / mebibyte,
    files: links.length,
    sockets: links.filter((link) => link.startsWith("socket:")).length,
    handles: Object.values(handles).reduce((total, count) => total + count, 0),
    timers,
  };
}

/** A file may have been closed in the meantime. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

/** How far the last quarter's median may exceed the second quarter's. Smaller differences are noise. */
const allowances = {
  memoryMiB: 16,
  heapMiB: 12,
  files: 4,
  sockets: 4,
  handles: 4,
  timers: 4,
  repairMs: 5_000,
} as const;

/** Minimum number of samples in a quarter of the run. With fewer, sockets that a fault leaves open for a while would look like
 * growth. */
const fewestSamples = 8;

type Grown = keyof typeof allowances;
const grown = Object.keys(allowances) as readonly Grown[];

/** Medians of the second and the last quarter. The first quarter is the warm-up. Undefined with too few samples. */
function quarterMedians(
  samples: readonly Sample[],
): readonly { readonly key: Grown; readonly early: number; readonly late: number }[] | undefined {
  const quarter = Math.floor(samples.length / 4);
  if (quarter < fewestSamples) return undefined;
  return grown.map((key) => ({
    key,
    early: median(samples.slice(quarter, 2 * quarter).map((sample) => sample[key])),
    late: median(samples.slice(-quarter).map((sample) => sample[key])),
  }));
}

/** Returns a sentence for each figure that grew between the second and the last quarter. */
export function findGrowth(samples: readonly Sample[]): readonly string[] {
  return (quarterMedians(samples) ?? [])
    .filter(({ key, early, late }) => late > early + allowances[key])
    .map(({ key, early, late }) => `${key} grew from ${early.toFixed(1)} to ${late.toFixed(1)}`);
}

/** One line with each figure's first and last median. */
export function growthLine(samples: readonly Sample[]): string {
  const figures = (quarterMedians(samples) ?? []).map(
    ({ key, early, late }) => `${key} ${early.toFixed(1)} → ${late.toFixed(1)}`,
  );
  return `Medians of the second and the last quarter: ${figures.join(", ")}`;
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)] ?? 0;
}

const columns: readonly (readonly [string, (sample: Sample) => string])[] = [
  ["minute", ({ minute }) => minute.toFixed(1)],
  ["repair ms", ({ repairMs }) => repairMs.toFixed(0)],
  ["drifts", ({ drifts }) => String(drifts)],
  ["memory MiB", ({ memoryMiB }) => memoryMiB.toFixed(1)],
  ["heap MiB", ({ heapMiB }) => heapMiB.toFixed(1)],
  ["files", ({ files }) => String(files)],
  ["sockets", ({ sockets }) => String(sockets)],
  ["handles", ({ handles }) => String(handles)],
  ["timers", ({ timers }) => String(timers)],
  ["delay p50 ms", ({ delayMs }) => delayMs.p50.toFixed(1)],
  ["p99", ({ delayMs }) => delayMs.p99.toFixed(1)],
  ["p99.9", ({ delayMs }) => delayMs.p999.toFixed(1)],
  ["worst", ({ delayMs }) => delayMs.worst.toFixed(0)],
  ["fault", ({ fault }) => fault],
];

export const titles: readonly string[] = columns.map(([title]) => title);

export function cellsOf(sample: Sample): readonly string[] {
  return columns.map(([, show]) => show(sample));
}

/** One line of a table. `cells` are titles or the cells of a sample. */
export function aligned(cells: readonly string[]): string {
  const widths = titles.map((title) => Math.max(title.length, 7));
  return cells.map((cell, column) => cell.padStart(widths[column] ?? 0)).join("  ");
}
