import type { ServicePort } from "../../model/service-port.ts";
import type { ClaimKey } from "./claim.ts";

/** Contains the Service's creation time, so that a Service that is deleted and recreated has new claims. */
type ClaimId = string & { readonly __brand: "ClaimId" };

/** Claims that an earlier run recorded, by {@link ClaimId}. */
export interface RecordedClaims {
  /** When each claim was first seen, in seconds since the epoch. */
  readonly seen: ReadonlyMap<string, number>;
  /** Claims that were rejected because a local process was listening on their address and port. */
  readonly refused: ReadonlySet<string>;
}

export const noRecordedClaims: RecordedClaims = { seen: new Map(), refused: new Set() };

/** If a recorded claim reappears within this time after startup, it keeps its recorded age. */
const recallSeconds = 3_600;

/**
 * Records when claims to external and load-balancer IPs were first seen, and which of them were rejected. The age of
 * the claim, not of the Service, decides who owns an address, because an old Service may add a claim later. Claims
 * noted between two calls of {@link settle} have the same age, so their order does not matter.
 */
export class ClaimAges {
  readonly #nowSeconds: () => number;
  readonly #seen = new Map<ClaimId, number>();
  readonly #refused = new Set<ClaimId>();
  #recorded: RecordedClaims;
  readonly #startedAtSeconds: number;
  #batchSeconds: number | undefined;
  #lastBatchSeconds: number;
  #isSettled = false;
  #isChanged = false;

  /** `nowSeconds` returns seconds since the epoch. */
  constructor(recorded: RecordedClaims = noRecordedClaims, nowSeconds: () => number = () => 0) {
    this.#recorded = recorded;
    this.#nowSeconds = nowSeconds;
    this.#startedAtSeconds = nowSeconds();
    this.#lastBatchSeconds = [...recorded.seen.values()].reduce((a, b) => Math.max(a, b), 0);
  }

  /** Records the claim, and returns when it was first seen. For the first plan's new claims, this is startup. */
  note(key: ClaimKey, port: ServicePort): number {
    const id = claimId(key, port);
    const known = this.#seen.get(id);
    if (known !== undefined) return known;
    this.#batchSeconds ??= this.#beginBatch();
    const seconds = this.#recorded.seen.get(id) ?? this.#batchSeconds;
    this.#seen.set(id, seconds);
    this.#isChanged = true;
    return seconds;
  }

  /**
   * Returns the current time with millisecond precision, so that claims from two syncs within one second have different
   * ages. If the clock is set back, later claims still have later times.
   */
  #beginBatch(): number {
    const nowMs = Math.floor(this.#nowSeconds() * 1_000);
    const lastMs = Math.round(this.#lastBatchSeconds * 1_000);
    this.#lastBatchSeconds = (nowMs < lastMs ? lastMs + 1 : nowMs) / 1_000;
    return this.#lastBatchSeconds;
  }

  /** Forgets a claim that was given up. If it reappears, it is a new claim. */
  forget(key: ClaimKey, port: ServicePort): void {
    const id = claimId(key, port);
    if (this.#recorded.seen.has(id)) {
      const seen = new Map(this.#recorded.seen);
      seen.delete(id);
      this.#recorded = { ...this.#recorded, seen };
    }
    if (this.#seen.delete(id)) this.#isChanged = true;
  }

  /** Whether the claim was admitted before. */
  isKnown(key: ClaimKey, port: ServicePort): boolean {
    const id = claimId(key, port);
    return this.#seen.has(id) || this.#recorded.seen.has(id);
  }

  /**
   * Whether an earlier run rejected the claim. Always false after the first {@link settle}, because claims are checked
   * again from then on.
   */
  wasRefused(key: ClaimKey, port: ServicePort): boolean {
    return !this.#isSettled && this.#recorded.refused.has(claimId(key, port));
  }

  noteRefused(key: ClaimKey, port: ServicePort, isRefused: boolean): void {
    const id = claimId(key, port);
    if (this.#refused.has(id) === isRefused) return;
    if (isRefused) this.#refused.add(id);
    else this.#refused.delete(id);
    this.#isChanged = true;
  }

  /** Makes claims that are noted later younger than all previous ones. */
  settle(): void {
    this.#batchSeconds = undefined;
    this.#isSettled = true;
    if (this.#nowSeconds() - this.#startedAtSeconds >= recallSeconds)
      this.#recorded = noRecordedClaims;
  }

  /** The content of the record on disk. Undefined if unchanged since the last call. */
  takeRecord(): RecordedClaims | undefined {
    if (!this.#isChanged) return undefined;
    this.#isChanged = false;
    return { seen: new Map([...this.#recorded.seen, ...this.#seen]), refused: this.#refused };
  }
}

function claimId(key: ClaimKey, { service, createdAtSeconds }: ServicePort): ClaimId {
  return `${key} ${service} ${createdAtSeconds}` as ClaimId;
}
