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

/** Milliseconds of a duration in Go's form: `1h2m3s`, `-1.5m`, `500ms`, `0`; undefined when it is none. */
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
