/** Number of texts to sort before yielding. Sorting them takes 1 or 2 ms. */
const runLength = 1_000;

/** Sorts texts by code units, as `sort()` does, and yields after each small step. Returns a new list. */
export function* sortInSteps<Text extends string>(
  texts: Iterable<Text>,
): Generator<void, readonly Text[]> {
  const unsorted = [...texts];
  let runs: Text[][] = [];
  for (let start = 0; start < unsorted.length; start += runLength) {
    runs.push(unsorted.slice(start, start + runLength).sort());
    yield;
  }
  while (runs.length > 1) {
    const merged: Text[][] = [];
    for (let index = 0; index < runs.length; index += 2) {
      merged.push(yield* merge(runs[index] ?? [], runs[index + 1] ?? []));
    }
    runs = merged;
  }
  return runs[0] ?? [];
}

function* merge<Text extends string>(
  one: readonly Text[],
  other: readonly Text[],
): Generator<void, Text[]> {
  const merged: Text[] = [];
  let [first, second] = [0, 0];
  while (first < one.length || second < other.length) {
    const [left, right] = [one[first], other[second]];
    const isLeft = right === undefined || (left !== undefined && left <= right);
    merged.push((isLeft ? left : right) as Text);
    if (isLeft) first += 1;
    else second += 1;
    if (merged.length % runLength === 0) yield;
  }
  return merged;
}
