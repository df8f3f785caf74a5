import { errorText } from "../../base/error-text.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { TunnelLinks } from "../../kernel/kernel.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import type { Subject } from "../../reconcile/subject.ts";
import { tunnelLinks } from "../../state/tunnel-link.ts";

export interface TunnelsOptions {
  /** Undefined if the kernel is only observed. */
  readonly links: TunnelLinks | undefined;
  readonly families: readonly IpFamily[];
  readonly desired: Pick<DesiredView, "tunnels">;
  /** Whether everything on which a resource depends exists; see `relations.ts`. Undefined before the first observation. */
  readonly canExist: (subject: Subject) => boolean | undefined;
  readonly log: Logger;
}

/**
 * Creates and removes the links that receive tunneled packets. They are not part of the reconciler's changes: each link
 * exists only after a sync in which all rules that restrict it were found or written.
 */
export class Tunnels {
  readonly #options: TunnelsOptions;
  /** Families whose link does not exist. Until a link was created or removed, it may exist. */
  readonly #absent = new Set<IpFamily>();
  /** The last error by family, so that each is logged once. */
  readonly #problems = new Map<IpFamily, string>();

  constructor(options: TunnelsOptions) {
    this.#options = options;
  }

  /** Call this before a sync removes rules. Rejects if a link that is no longer needed cannot be removed. */
  async removeUnneeded(): Promise<void> {
    for (const family of this.#options.families)
      if (!this.#isWanted(family)) await this.#remove(family);
  }

  /** Call this after a sync. */
  async serve(): Promise<void> {
    const { links, families, canExist, log } = this.#options;
    if (links === undefined) return;
    for (const family of families.filter((one) => this.#isWanted(one))) {
      const link = tunnelLinks[family].name;
      let problem = "";
      try {
        const isPermitted = canExist({ type: "link", link });
        if (isPermitted === undefined) continue;
        if (isPermitted) {
          this.#absent.delete(family);
          await links.ensure(family);
        } else {
          await this.#remove(family);
          problem = "no other Node is known, or the rules that restrict the link are missing";
        }
      } catch (error) {
        problem = errorText(error);
      }
      if (problem !== "" && problem !== this.#problems.get(family))
        log.error("Cannot receive packets that other nodes forward", { link, reason: problem });
      this.#problems.set(family, problem);
    }
  }

  async #remove(family: IpFamily): Promise<void> {
    if (this.#absent.has(family)) return;
    await this.#options.links?.remove(family);
    this.#absent.add(family);
  }

  #isWanted(family: IpFamily): boolean {
    return this.#options.desired.tunnels(family).length > 0;
  }
}
