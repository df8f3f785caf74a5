/** Figures in few characters. Pure. */

const units = ["", "k", "M", "G", "T", "P"] as const;

/** `0`, `7.5`, `512`, `1.2k`, `34k`, `5.6M`: three digits at most, steps of a thousand. */
export function shortNumber(value: number): string {
  if (!Number.isFinite(value)) return "-";
  let rest = Math.max(0, value);
  let step = 0;
  // What is rounded to a thousand is written in the next unit.
  while (Math.round(rest) >= 1_000 && step < units.length - 1) {
    rest /= 1_000;
    step += 1;
  }
  const digits = rest >= 9.95 ? String(Math.round(rest)) : rest.toFixed(1).replace(/\.0$/, "");
  return `${digits}${units[step] ?? ""}`;
}
