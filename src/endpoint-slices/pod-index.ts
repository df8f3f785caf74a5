import type { PodRecord, SelectingService } from "./objects.ts";
import { namespaceOf } from "./selection.ts";

/** Pods by namespace and label, so that a Service's Pods are found without checking every Pod in the cluster. */
export class PodIndex {
  readonly #pods = new Map<string, Set<PodRecord>>();

  /** Replaces a Pod's previous record with its current one. */
  replace(previous: PodRecord | undefined, current: PodRecord | undefined): void {
    for (const key of previous === undefined ? [] : keysOf(previous)) this.#drop(key, previous);
    if (current === undefined) return;
    for (const key of keysOf(current)) {
      const pods = this.#pods.get(key);
      if (pods === undefined) this.#pods.set(key, new Set([current]));
      else pods.add(current);
    }
  }

  /** A superset of the Pods that the Service selects. */
  candidates({ name, selector }: SelectingService): Iterable<PodRecord> {
    const namespace = namespaceOf(name);
    const sets = Object.entries(selector).map(
      ([label, value]) => this.#pods.get(keyOf(namespace, label, value)) ?? noPods,
    );
    return sets.reduce((fewest, set) => (set.size < fewest.size ? set : fewest));
  }

  #drop(key: string, pod: PodRecord | undefined): void {
    const pods = this.#pods.get(key);
    if (pod !== undefined) pods?.delete(pod);
    if (pods?.size === 0) this.#pods.delete(key);
  }
}

const noPods: ReadonlySet<PodRecord> = new Set();

function keysOf({ name, labels }: PodRecord): readonly string[] {
  const namespace = namespaceOf(name);
  return Object.entries(labels).map(([label, value]) => keyOf(namespace, label, value));
}

function keyOf(namespace: string, label: string, value: string): string {
  return `${namespace}\0${label}\0${value}`;
}
