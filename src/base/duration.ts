const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};

const part = /(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/y;

/** Parses a duration in Go's format (`1h2m3s`, `-1.5m`, `500ms`, `0`) to milliseconds. Undefined if it is invalid. */
export function parseDuration(text: string): number | undefined {
  const unsigned = text.replace(/^[+-]/, "");
  if (unsigned === "0") return 0;
  let sum = 0;
  part.lastIndex = 0;
  while (part.lastIndex < unsigned.length || unsigned === "") {
    const match = part.exec(unsigned);
    if (match === null) return undefined;
    sum += Number(match[1]) * (unitMs[match[2] ?? ""] ?? Number.NaN);
  }
  return text.startsWith("-") ? -sum : sum;
}

/** Formats a duration as Go does: `1h0m0s`, `1.5s`, `500ms`, `0s`. Rounds to nanoseconds. */
export function durationText(milliseconds: number): string {
  const sign = milliseconds < 0 ? "-" : "";
  const ns = Math.round(Math.abs(milliseconds) * 1e6);
  if (ns === 0) return "0s";
  if (ns < 1e3) return `${sign}${ns}ns`;
  if (ns < 1e6) return `${sign}${ns / 1e3}µs`;
  if (ns < 1e9) return `${sign}${ns / 1e6}ms`;
  const minutes = Math.floor(ns / 60e9);
  const seconds = `${(ns - minutes * 60e9) / 1e9}s`;
  const hours = Math.floor(minutes / 60);
  if (hours > 0) return `${sign}${hours}h${minutes % 60}m${seconds}`;
  return minutes > 0 ? `${sign}${minutes}m${seconds}` : `${sign}${seconds}`;
}
