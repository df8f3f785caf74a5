import type { Clock } from "../base/clock.ts";
import { nameHash } from "../base/name-hash.ts";
import type { ServiceName } from "../base/service-name.ts";
import type { SlicePlan } from "../endpoint-slices/plan-slices.ts";

/** A third party reverts what is written: the next write waits. */
export class RevertedError extends Error {
  /** How long. */
  readonly waitMs: number;

  constructor(service: ServiceName, times: number, waitMs: number) {
    const advice = "another controller or an admission webhook changes them, leave them to one";
    super(`EndpointSlices of ${service} were changed back ${times} times: ${advice}`);
    this.name = "RevertedError";
    this.waitMs = waitMs;
  }
}

interface Written {
  /** Of what was written: a Service may have thousands of endpoints. */
  readonly digest: string;
  readonly times: number;
  readonly atMs: number;
}

/** So often in a row the same is written at once. */
const patience = 3;
const firstWaitMs = 1_000;
const longestWaitMs = 60_000;

/** Keeps two writers from writing against each other as fast as they can: the same again waits, longer each time. */
export class RevertedWrites {
  readonly #clock: Clock;
  readonly #written = new Map<ServiceName, Written>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** To be called before a plan is carried out. Throws {@link RevertedError}. */
  check(service: ServiceName, plan: SlicePlan): void {
    const before = this.#written.get(service);
    if (before === undefined || before.times < patience || before.digest !== digestOf(plan)) return;
    const waitMs = Math.min(longestWaitMs, firstWaitMs * 2 ** (before.times - patience));
    const leftMs = before.atMs + waitMs - this.#clock.monotonicMs();
    if (leftMs > 0) throw new RevertedError(service, before.times, leftMs);
  }

  /** It was carried out. */
  note(service: ServiceName, plan: SlicePlan): void {
    const digest = digestOf(plan);
    const before = this.#written.get(service);
    const times = before?.digest === digest ? before.times + 1 : 1;
    this.#written.set(service, { digest, times, atMs: this.#clock.monotonicMs() });
  }

  /** The Service is gone. */
  forget(service: ServiceName): void {
    this.#written.delete(service);
  }
}

function digestOf({ creates, updates, deletes }: SlicePlan): string {
  const changed = updates.map(({ stored, content }) => [stored.name, content]);
  return nameHash(JSON.stringify([creates, changed, deletes.map(({ name }) => name)]));
}
