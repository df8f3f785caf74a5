/** Rules that are read before they are asked for. */
import type { IpFamily } from "../../base/ip.ts";

export interface RulesAheadParts {
  /** As `Iptables.readGeneration`. */
  readonly readGeneration: (family: IpFamily) => Promise<number | undefined>;
  /** What `iptables-save` prints. */
  readonly print: (family: IpFamily) => Promise<string>;
}

/** What a save printed, and the generation of the rules before it. */
interface Saved {
  readonly generation: number;
  readonly output: string;
}

/** What was saved is taken once, and only where no rule has changed since. */
export class RulesAhead {
  readonly #parts: RulesAheadParts;
  readonly #saved = new Map<IpFamily, Promise<Saved | undefined>>();

  constructor(parts: RulesAheadParts) {
    this.#parts = parts;
  }

  /** Begins to read. Never throws: whoever observes meets the failure again. */
  read(family: IpFamily): void {
    this.#saved.set(
      family,
      this.#save(family).catch(() => undefined),
    );
  }

  /** Undefined where nothing was read, or a rule may have changed. */
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
