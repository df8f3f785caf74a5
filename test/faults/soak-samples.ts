/** What is sampled in a soak, and whether it grows. Pure but for {@link takeSample}. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

export interface Sample {
  readonly minute: number;
  readonly memoryMiB: number;
  readonly heapMiB: number;
  readonly files: number;
  readonly sockets: number;
  readonly timers: number;
  readonly delayMs: { readonly p50: number; readonly p99: number; readonly worst: number };
}

interface Probe {
  readonly active: Readonly<Record<string, number>>;
  readonly delayMs: Sample["delayMs"];
  readonly heapUsed: number;
  readonly rss: number;
}

const mebibyte = 1_048_576;

/** `probeFile`: what soak-probe.cjs writes in the program. */
export function takeSample(pid: number, probeFile: string, minute: number): Sample {
  const { active, delayMs, heapUsed, rss } = JSON.parse(readFileSync(probeFile, "utf8")) as Probe;
  const links = readdirSync(`/proc/${pid}/fd`).map((name) => linkOf(`/proc/${pid}/fd/${name}`));
  return {
    minute,
    delayMs,
    memoryMiB: rss / mebibyte,
    heapMiB: heapUsed / mebibyte,
    files: links.length,
    sockets: links.filter((link) => link.startsWith("socket:")).length,
    timers: active["Timeout"] ?? 0,
  };
}

/** A file may be closed meanwhile. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

/** By how much the last quarter's median may be above the second's: what is left of noise. */
const allowances = { memoryMiB: 16, heapMiB: 12, files: 4, sockets: 4, timers: 4 } as const;

/** One sentence for each figure that grew between the second quarter and the last; the first one warms up. */
export function findGrowth(samples: readonly Sample[]): readonly string[] {
  const quarter = Math.floor(samples.length / 4);
  if (quarter < 2) return [];
  const keys = Object.keys(allowances) as readonly (keyof typeof allowances)[];
  return keys.flatMap((key) => {
    const early = median(samples.slice(quarter, 2 * quarter).map((sample) => sample[key]));
    const late = median(samples.slice(-quarter).map((sample) => sample[key]));
    if (late <= early + allowances[key]) return [];
    return [`${key} grew from ${early.toFixed(1)} to ${late.toFixed(1)}`];
  });
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)] ?? 0;
}

const columns: readonly (readonly [string, (sample: Sample) => string])[] = [
  ["minute", ({ minute }) => minute.toFixed(1)],
  ["memory MiB", ({ memoryMiB }) => memoryMiB.toFixed(1)],
  ["heap MiB", ({ heapMiB }) => heapMiB.toFixed(1)],
  ["files", ({ files }) => String(files)],
  ["sockets", ({ sockets }) => String(sockets)],
  ["timers", ({ timers }) => String(timers)],
  ["delay p50 ms", ({ delayMs }) => delayMs.p50.toFixed(1)],
  ["p99", ({ delayMs }) => delayMs.p99.toFixed(1)],
  ["worst", ({ delayMs }) => delayMs.worst.toFixed(0)],
];

/** A header, and a line for every sample. */
export function sampleTable(samples: readonly Sample[]): readonly string[] {
  const widths = columns.map(([title]) => Math.max(title.length, 7));
  const line = (texts: readonly string[]): string =>
    texts.map((text, column) => text.padStart(widths[column] ?? 0)).join("  ");
  return [
    line(columns.map(([title]) => title)),
    ...samples.map((sample) => line(columns.map(([, show]) => show(sample)))),
  ];
}
