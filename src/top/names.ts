/** Looks up the Services of virtual servers in the background. */
import { foreignReason, lostReason } from "../answer/reasons.ts";
import { type ServiceRow, serverKeyOf } from "../answer/rows.ts";
import type { Clock } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import type { ServerKey } from "../state/virtual-server.ts";

export type ReadNames = () => Promise<NamesAnswer>;

export type NamesAnswer =
  | { readonly kind: "named"; readonly rows: readonly ServiceRow[] }
  /** No Service names are known, so rows show only virtual servers. */
  | { readonly kind: "unnamed"; readonly reason: string };

export type Owner = Pick<ServiceRow, "namespace" | "name" | "portName">;

/** The Services by virtual server key. */
export type Owners = ReadonlyMap<ServerKey, Owner>;

export function ownersOf(rows: readonly ServiceRow[]): Owners {
  const own = rows.filter(({ reason }) => reason !== lostReason && reason !== foreignReason);
  return new Map(
    own.map((row) => {
      const { namespace, name, portName } = row;
      const port = portName === undefined ? {} : { portName };
      return [serverKeyOf(row), { namespace, name, ...port }];
    }),
  );
}

/** Minimum interval between two lookups. */
const shortestPauseMs = 10_000;

export class NameLookup {
  readonly #read: ReadNames;
  readonly #clock: Clock;
  #owners: Owners = new Map();
  #reason: string | undefined;
  #asking: Promise<void> | undefined;
  #askedAtMs = Number.NEGATIVE_INFINITY;
  /** Virtual servers without a name in the last answer. They do not cause another lookup. */
  #nameless: ReadonlySet<ServerKey> = new Set();

  constructor(read: ReadNames, clock: Clock) {
    this.#read = read;
    this.#clock = clock;
  }

  get owners(): Owners {
    return this.#owners;
  }

  /** Why there are no names. Empty if there are names, or if there is no answer yet. */
  get notes(): readonly string[] {
    return this.#reason === undefined ? [] : [`Service names are not available: ${this.#reason}`];
  }

  /** Starts a lookup if one of these virtual servers is new and has no name. Resolves when the lookup has ended. */
  async ask(keys: Iterable<ServerKey>): Promise<void> {
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
