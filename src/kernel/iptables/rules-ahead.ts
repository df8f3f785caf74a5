/** Reads rules before they are requested. */
import type { IpFamily } from "../../base/ip.ts";

export interface RulesAheadParts {
  /** See `Iptables.readGeneration`. */
  readonly readGeneration: (family: IpFamily) => Promise<number | undefined>;
  /** Returns the output of `iptables-save`. */
  readonly print: (family: IpFamily) => Promise<string>;
}

/** The output of `iptables-save`, and the rules' generation before it ran. */
interface Saved {
  readonly generation: number;
  readonly output: string;
}

/** A saved output is used at most once, and only if no rule has changed since. */
export class RulesAhead {
  readonly #parts: RulesAheadParts;
  readonly #saved = new Map<IpFamily, Promise<Saved | undefined>>();

  constructor(parts: RulesAheadParts) {
    this.#parts = parts;
  }

  /** Starts reading. Never throws: the next observation reports the failure. */
  read(family: IpFamily): void {
    this.#saved.set(
      family,
      this.#save(family).catch(() => undefined),
    );
  }

  /** Undefined if nothing was read or a rule may have changed. */
  async take(family: IpFamily): Promise<string | undefined> {
    const saved = await this.#saved.get(family);
    this.#saved.delete(family);
    if (saved === undefined) return undefined;
    const isCurrent = saved.generation === (await this.#parts.readGeneration(family));
    return isCurrent ? saved.output : undefined;
  }

  async #save(family: IpFamily): Promise<Saved | undefined> {
    const generation = await this.#parts.readGeneration(family);
    if (generation === undefined) return undefined;
    return { generation, output: await this.#parts.print(family) };
  }
}
