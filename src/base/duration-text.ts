/** Formats a duration for people, with at most two units: `3 s`, `4 min 5 s`, `2 h 10 min`, `3 d 4 h`. Pure. */
export function durationText(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const index = units.findIndex(({ size }) => whole >= size);
  const [first, second] = [units[index], units[index + 1]];
  if (first === undefined) return "0 s";
  const rest = second === undefined ? 0 : Math.floor((whole % first.size) / second.size);
  const head = `${Math.floor(whole / first.size)} ${first.name}`;
  return rest === 0 ? head : `${head} ${rest} ${second?.name}`;
}

const units = [
  { size: 86_400, name: "d" },
  { size: 3_600, name: "h" },
  { size: 60, name: "min" },
  { size: 1, name: "s" },
] as const;
