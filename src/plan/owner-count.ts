/** Values that several owners may want at once; a value is present while anybody wants it. */
export class OwnerCount<T> {
  readonly #counts = new Map<T, number>();

  /** Says whether the value is new. */
  add(value: T): boolean {
    const count = this.#counts.get(value) ?? 0;
    this.#counts.set(value, count + 1);
    return count === 0;
  }

  /** Says whether that was the last owner. */
  remove(value: T): boolean {
    const count = this.#counts.get(value) ?? 0;
    if (count > 1) {
      this.#counts.set(value, count - 1);
      return false;
    }
    return this.#counts.delete(value);
  }

  has(value: T): boolean {
    return this.#counts.has(value);
  }

  get size(): number {
    return this.#counts.size;
  }

  values(): IterableIterator<T> {
    return this.#counts.keys();
  }
}
