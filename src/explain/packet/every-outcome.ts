import type { Lot } from "./traverse.ts";

/** What comes of every sequence of lots: `run` is called again for each, a match first. Pure as `run` is. */
export function everyOutcome<T>(run: (lot: Lot) => T): readonly T[] {
  const outcomes: T[] = [];
  const drawn: boolean[] = [];
  do {
    let asked = 0;
    const lot = (): boolean => {
      asked += 1;
      if (asked > drawn.length) drawn.push(true);
      return drawn[asked - 1] === true;
    };
    outcomes.push(run(lot));
  } while (drawNext(drawn));
  return outcomes;
}

/** The last match that was drawn becomes none; false: there is no further sequence. */
function drawNext(drawn: boolean[]): boolean {
  while (drawn.at(-1) === false) drawn.pop();
  if (drawn.length === 0) return false;
  drawn[drawn.length - 1] = false;
  return true;
}
