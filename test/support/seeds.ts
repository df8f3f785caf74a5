/**
 * Whether tests use the long form, which has more random inputs. The short form, `make test`, always uses the same
 * seeds. The long form sets TEST_LONG and takes its first seed from TEST_FIRST_SEED, which `make nightly` sets to the
 * date. `TEST_FIRST_SEED=4711 TEST_SEEDS=1` repeats one case.
 */
export const isLong: boolean = process.env["TEST_LONG"] !== undefined;

export const firstSeed: number = Number(process.env["TEST_FIRST_SEED"] ?? 1);

export interface Counts {
  readonly short: number;
  readonly long: number;
}

export function countOf({ short, long }: Counts): number {
  return isLong ? long : short;
}

/** Consecutive seeds, so that a case's name shows how to repeat it. */
export function seeds(counts: Counts): readonly number[] {
  const count = Number(process.env["TEST_SEEDS"] ?? countOf(counts));
  return Array.from({ length: count }, (_, index) => firstSeed + index);
}

/** Random numbers from 0 (inclusive) to 1 (exclusive) for a seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function groupsOf<T>(size: number, values: readonly T[]): readonly (readonly T[])[] {
  const count = Math.ceil(values.length / size);
  return Array.from({ length: count }, (_, index) =>
    values.slice(index * size, (index + 1) * size),
  );
}
