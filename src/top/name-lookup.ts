/** Asks for the names of Services while everything else goes on. */
import type { Clock } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import { type NamesAnswer, ownersOf, type ReadNames } from "./owners.ts";
import type { Owners } from "./rows.ts";

/** Not asked more often, however many virtual servers have no name. */
const shortestPauseMs = 10_000;

export class NameLookup {
  readonly #read: ReadNames;
  readonly #clock: Clock;
  #owners: Owners = new Map();
  #reason: string | undefined;
  #asking: Promise<void> | undefined;
  #askedAtMs = Number.NEGATIVE_INFINITY;
  /** Without a name after the last answer: they are not asked for again. */
  #nameless: ReadonlySet<string> = new Set();

  constructor(read: ReadNames, clock: Clock) {
    this.#read = read;
    this.#clock = clock;
  }

  get owners(): Owners {
    return this.#owners;
  }

  /** Why there are no names; undefined: there are, or nobody answered yet. */
  get missingReason(): string | undefined {
    return this.#reason;
  }

  /** Asks where one of these virtual servers is new and has no name; resolves when the answer is there. */
  async ask(keys: Iterable<string>): Promise<void> {
    const unnamed = [...keys].filter((key) => !this.#owners.has(key));
    if (unnamed.every((key) => this.#nameless.has(key))) return;
    if (this.#asking === undefined) {
      if (this.#clock.monotonicMs() - this.#askedAtMs < shortestPauseMs) return;
      this.#asking = this.#take().finally(() => {
        this.#asking = undefined;
        this.#nameless = new Set(unnamed.filter((key) => !this.#owners.has(key)));
      });
    }
    await this.#asking;
  }

  async #take(): Promise<void> {
    this.#askedAtMs = this.#clock.monotonicMs();
    const answer = await this.#answer();
    this.#reason = answer.kind === "unnamed" ? answer.reason : undefined;
    if (answer.kind === "named") this.#owners = ownersOf(answer.rows);
  }

  async #answer(): Promise<NamesAnswer> {
    try {
      return await this.#read();
    } catch (error) {
      return { kind: "unnamed", reason: errorText(error) };
    }
  }
}
