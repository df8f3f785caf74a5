/** Returns the smallest defined time, or undefined if none is defined. Pure. */
export function earliest(times: Iterable<number | undefined>): number | undefined {
  let first: number | undefined;
  for (const time of times)
    if (time !== undefined && (first === undefined || time < first)) first = time;
  return first;
}
