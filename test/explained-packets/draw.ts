import { seededRandom } from "../support/seeds.ts";

/** Random choices that a seed makes repeatable. */
export class Draw {
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
  }

  isChosen(probability: number): boolean {
    return this.#random() < probability;
  }

  one<T>(values: readonly [T, ...T[]] | readonly T[]): T {
    const value = values[Math.floor(this.#random() * values.length)];
    if (value === undefined) throw new Error("Nothing to choose from");
    return value;
  }

  some<T>(values: readonly T[], probability: number): readonly T[] {
    return values.filter(() => this.isChosen(probability));
  }
}
