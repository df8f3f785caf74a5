/** Values that several users need, each with the number of its users. */
export class UseCounts<T> {
  readonly #counts = new Map<T, number>();

  get size(): number {
    return this.#counts.size;
  }

  has(value: T): boolean {
    return this.#counts.has(value);
  }

  values(): IterableIterator<T> {
    return this.#counts.keys();
  }

  /** Replaces the values that one user needs. Returns those that no user needs anymore. */
  replace(before: Iterable<T>, after: Iterable<T>): readonly T[] {
    for (const value of after) this.#counts.set(value, (this.#counts.get(value) ?? 0) + 1);
    const gone: T[] = [];
    for (const value of before) {
      const rest = (this.#counts.get(value) ?? 1) - 1;
      if (rest > 0) this.#counts.set(value, rest);
      else if (this.#counts.delete(value)) gone.push(value);
    }
    return gone;
  }
}
