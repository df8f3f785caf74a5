import type { Clock } from "../base/clock.ts";
import { nameHash } from "../base/name-hash.ts";
import type { ServiceName } from "../base/service-name.ts";
import type { SlicePlan } from "../endpoint-slices/plan-slices.ts";

/** A third party keeps reverting a Service's slices, so the next write must wait. */
export class RevertedError extends Error {
  /** Remaining time before the next attempt. */
  readonly waitMs: number;

  constructor(service: ServiceName, times: number, waitMs: number) {
    const advice =
      "another controller or an admission webhook also changes them; let only one program manage them";
    super(`EndpointSlices of ${service} were reverted ${times} times: ${advice}`);
    this.name = "RevertedError";
    this.waitMs = waitMs;
  }
}

interface Written {
  /** A digest of the last plan, since the plan itself may contain thousands of endpoints. */
  readonly digest: string;
  readonly times: number;
  readonly atMs: number;
}

/** How many times in a row the same plan may be written without waiting. */
const patience = 3;
const firstWaitMs = 1_000;
const longestWaitMs = 60_000;

/**
 * If the same plan must be written repeatedly, backs off with increasing delays. Otherwise, two writers would revert
 * each other's changes at full speed.
 */
export class RevertedWrites {
  readonly #clock: Clock;
  readonly #written = new Map<ServiceName, Written>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Must be called before a plan is written. Throws {@link RevertedError} if the plan must wait. */
  check(service: ServiceName, plan: SlicePlan): void {
    const before = this.#written.get(service);
    if (before === undefined || before.times < patience || before.digest !== digestOf(plan)) return;
    const waitMs = Math.min(longestWaitMs, firstWaitMs * 2 ** (before.times - patience));
    const leftMs = before.atMs + waitMs - this.#clock.monotonicMs();
    if (leftMs > 0) throw new RevertedError(service, before.times, leftMs);
  }

  /** Must be called after a plan has been written. */
  note(service: ServiceName, plan: SlicePlan): void {
    const digest = digestOf(plan);
    const before = this.#written.get(service);
    const times = before?.digest === digest ? before.times + 1 : 1;
    this.#written.set(service, { digest, times, atMs: this.#clock.monotonicMs() });
  }

  forget(service: ServiceName): void {
    this.#written.delete(service);
  }
}

function digestOf({ creates, updates, deletes }: SlicePlan): string {
  const changed = updates.map(({ stored, content }) => [stored.name, content]);
  return nameHash(JSON.stringify([creates, changed, deletes.map(({ name }) => name)]));
}
