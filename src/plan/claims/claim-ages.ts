import type { ServicePort } from "../../model/service-port.ts";

/** What an earlier run knew of claims, by {@link claimId}. */
export interface RecordedClaims {
  /** When each was first seen, in seconds since the epoch. */
  readonly seen: ReadonlyMap<string, number>;
  /** Those that were refused because a process of the node listened there. */
  readonly refused: ReadonlySet<string>;
}

export const noRecordedClaims: RecordedClaims = { seen: new Map(), refused: new Set() };

/** A claim that comes back within this time after a start is as old as the record says. */
const recallSeconds = 3_600;

/**
 * When the claims of addresses were first seen that anybody may name, and which of them were refused. The age of a claim
 * decides who has an address, not the age of the Service: that may have been edited since. Claims that are noted between two
 * calls of {@link settle} are equally old, so their order does not matter.
 */
export class ClaimAges {
  readonly #nowSeconds: () => number;
  readonly #seen = new Map<string, number>();
  readonly #refused = new Set<string>();
  #recorded: RecordedClaims;
  readonly #startedAtSeconds: number;
  #batchSeconds: number | undefined;
  #lastBatchSeconds: number;
  #isSettled = false;
  #isChanged = false;

  /** `nowSeconds`: since the epoch. */
  constructor(recorded: RecordedClaims = noRecordedClaims, nowSeconds: () => number = () => 0) {
    this.#recorded = recorded;
    this.#nowSeconds = nowSeconds;
    this.#startedAtSeconds = nowSeconds();
    this.#lastBatchSeconds = [...recorded.seen.values()].reduce((a, b) => Math.max(a, b), 0);
  }

  /** Every claim of the first plan is as new as the start, unless the record knows it. */
  note(key: string, port: ServicePort): number {
    const id = claimId(key, port);
    const known = this.#seen.get(id);
    if (known !== undefined) return known;
    this.#batchSeconds ??= this.#beginBatch();
    const seconds = this.#recorded.seen.get(id) ?? this.#batchSeconds;
    this.#seen.set(id, seconds);
    this.#isChanged = true;
    return seconds;
  }

  /** In milliseconds: two syncs within one second make claims of two ages. A clock that was set back makes no claim older. */
  #beginBatch(): number {
    const nowMs = Math.floor(this.#nowSeconds() * 1_000);
    const lastMs = Math.round(this.#lastBatchSeconds * 1_000);
    this.#lastBatchSeconds = (nowMs < lastMs ? lastMs + 1 : nowMs) / 1_000;
    return this.#lastBatchSeconds;
  }

  /** The claim was given up: if it comes again, it is a new one. */
  forget(key: string, port: ServicePort): void {
    const id = claimId(key, port);
    if (this.#recorded.seen.has(id)) {
      const seen = new Map(this.#recorded.seen);
      seen.delete(id);
      this.#recorded = { ...this.#recorded, seen };
    }
    if (this.#seen.delete(id)) this.#isChanged = true;
  }

  /** Whether the claim was admitted before. */
  isKnown(key: string, port: ServicePort): boolean {
    const id = claimId(key, port);
    return this.#seen.has(id) || this.#recorded.seen.has(id);
  }

  /** Whether an earlier run refused it; undefined: nobody knows, or it is to be looked at again. */
  wasRefused(key: string, port: ServicePort): boolean {
    return !this.#isSettled && this.#recorded.refused.has(claimId(key, port));
  }

  noteRefused(key: string, port: ServicePort, isRefused: boolean): void {
    const id = claimId(key, port);
    if (this.#refused.has(id) === isRefused) return;
    if (isRefused) this.#refused.add(id);
    else this.#refused.delete(id);
    this.#isChanged = true;
  }

  /** Claims that are noted from now on are younger. */
  settle(): void {
    this.#batchSeconds = undefined;
    this.#isSettled = true;
    if (this.#nowSeconds() - this.#startedAtSeconds >= recallSeconds)
      this.#recorded = noRecordedClaims;
  }

  /** What a record has to hold; undefined: the same as when this was asked last. */
  takeRecord(): RecordedClaims | undefined {
    if (!this.#isChanged) return undefined;
    this.#isChanged = false;
    return { seen: new Map([...this.#recorded.seen, ...this.#seen]), refused: this.#refused };
  }
}

/** A Service that is deleted and made again makes other claims. */
function claimId(key: string, { service, createdAtSeconds }: ServicePort): string {
  return `${key} ${service} ${createdAtSeconds}`;
}
