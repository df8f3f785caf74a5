import type { Walk } from "./walk-step.ts";

/** Removes steps, first many at a time and then one by one, as long as the walk still fails. */
export async function shortenWalk(
  walk: Walk,
  goesWrong: (walk: Walk) => Promise<boolean>,
): Promise<Walk> {
  let { steps } = walk;
  for (let size = Math.floor(steps.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let at = 0; at < steps.length; ) {
      const shorter = steps.toSpliced(at, size);
      if (await goesWrong({ steps: shorter })) steps = shorter;
      else at += size;
    }
  }
  return { steps };
}
