/** Repairs that others undo again and again: they wait longer and longer. Time comes in as an argument. */
import type { Drift, DriftKind } from "./drift.ts";

/** So many drifts of one thing … */
const stormSize = 5;
/** … in this time are a storm; it ends when nothing happened for as long. */
const windowMs = 600_000;
/** The first pause; doubles each time the thing is changed again after a repair. */
const firstHoldMs = 30_000;
const longestHoldMs = 600_000;

/** A thing that others change again and again. */
export interface Storm {
  readonly kind: DriftKind;
  readonly subject: string;
  /** Drifts within ten minutes when it began. */
  readonly driftCount: number;
  /** The present pause, or the last one. */
  readonly holdMs: number;
}

interface Repairs {
  /** Monotonic; those of the last ten minutes. */
  driftsAtMs: number[];
  holdMs: number;
  heldUntilMs: number;
  last: Drift;
}

/** The thing that a drift is about: what is repaired by one and the same write. */
export function thingOf({ kind, subject }: Pick<Drift, "kind" | "subject">): string {
  switch (kind) {
    case "scheduler":
      return `virtual-server ${subject}`;
    case "weight":
      return `real-server ${subject}`;
    case "rule":
    case "jump":
      return `chain ${subject}`;
    default:
      return `${kind} ${subject}`;
  }
}

/**
 * Counts what is repaired and says which repairs wait. Repairs of other things are not delayed. Sets never
 * wait: rules cannot be written before the sets they name.
 */
export class RepairGuard {
  readonly #repairs = new Map<string, Repairs>();

  /** Counts drifts; each thing once, however much of it changed. */
  note(drifts: readonly Drift[], nowMs: number): void {
    this.#forget(nowMs);
    const things = new Map(drifts.map((drift) => [thingOf(drift), drift]));
    for (const [thing, drift] of things) {
      if (drift.kind !== "set" && !this.isHeld(thing, nowMs)) this.#noteOne(thing, drift, nowMs);
    }
  }

  isHeld(thing: string, nowMs: number): boolean {
    return (this.#repairs.get(thing)?.heldUntilMs ?? 0) > nowMs;
  }

  get storms(): readonly Storm[] {
    return [...this.#repairs.values()]
      .filter(({ holdMs }) => holdMs > 0)
      .map(({ last: { kind, subject }, driftsAtMs, holdMs }) => ({
        kind,
        subject,
        holdMs,
        driftCount: driftsAtMs.length,
      }));
  }

  #noteOne(thing: string, drift: Drift, nowMs: number): void {
    const repairs = this.#repairs.get(thing) ?? newRepairs(drift);
    this.#repairs.set(thing, repairs);
    repairs.last = drift;
    repairs.driftsAtMs.push(nowMs);
    if (repairs.holdMs === 0 && repairs.driftsAtMs.length < stormSize) return;
    repairs.holdMs = Math.min(Math.max(firstHoldMs, 2 * repairs.holdMs), longestHoldMs);
    repairs.heldUntilMs = nowMs + repairs.holdMs;
  }

  /** Forgets what was quiet for long enough, the pause itself not counted. */
  #forget(nowMs: number): void {
    for (const [thing, repairs] of this.#repairs) {
      const quietSinceMs = Math.max(repairs.heldUntilMs, repairs.driftsAtMs.at(-1) ?? 0);
      if (nowMs - quietSinceMs >= windowMs) this.#repairs.delete(thing);
      else repairs.driftsAtMs = repairs.driftsAtMs.filter((atMs) => nowMs - atMs < windowMs);
    }
  }
}

function newRepairs(drift: Drift): Repairs {
  return { driftsAtMs: [], holdMs: 0, heldUntilMs: 0, last: drift };
}
