/** Formats a count with its noun: `1 virtual server`, `2 virtual servers`. Pure. */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

/** Formats a number with thousands separators: `1,204`. Pure. */
export function grouped(value: number): string {
  return value.toLocaleString("en-US");
}
