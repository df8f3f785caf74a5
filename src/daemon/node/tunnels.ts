import { errorText } from "../../base/error-text.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { TunnelLinks } from "../../kernel/kernel.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import type { Subject } from "../../reconcile/subject.ts";
import { tunnelLinks } from "../../state/tunnel-link.ts";

export interface TunnelsOptions {
  /** Undefined in observe-only mode. */
  readonly links: TunnelLinks | undefined;
  readonly families: readonly IpFamily[];
  readonly desired: Pick<DesiredView, "tunnels">;
  /** Whether all dependencies of this subject exist; see `relations.ts`. Undefined before the first observation. */
  readonly canExist: (subject: Subject) => boolean | undefined;
  readonly log: Logger;
}

/**
 * Creates and removes the links that receive tunneled packets. They are not part of the reconciler's changes, because a
 * link may be created only after a sync has found or written all rules that restrict it.
 */
export class Tunnels {
  readonly #options: TunnelsOptions;
  /** Families whose link is known not to exist. */
  readonly #absent = new Set<IpFamily>();
  /** The last error of each family. An error is logged only if it differs from the last one. */
  readonly #problems = new Map<IpFamily, string>();

  constructor(options: TunnelsOptions) {
    this.#options = options;
  }

  /** Call this before a sync. Never rejects. If a link cannot be removed, the chains that restrict it remain. */
  async removeUnneeded(): Promise<void> {
    for (const family of this.#options.families.filter((one) => !this.#isWanted(one)))
      await this.#attempt(family, "Cannot remove the link of earlier tunnels", () =>
        this.#remove(family),
      );
  }

  /** Call this after a sync. Never rejects. */
  async serve(): Promise<void> {
    for (const family of this.#options.families.filter((one) => this.#isWanted(one)))
      await this.#attempt(family, "Cannot receive packets that other nodes forward", () =>
        this.#serve(family),
      );
  }

  /** Throws if the link must not exist, or if it cannot be created or removed. */
  async #serve(family: IpFamily): Promise<void> {
    const { links, canExist } = this.#options;
    const isPermitted = canExist({ type: "link", link: tunnelLinks[family].name });
    if (links === undefined || isPermitted === undefined) return;
    if (isPermitted) {
      this.#absent.delete(family);
      await links.ensure(family);
    } else {
      await this.#remove(family);
      throw new Error("no other Node is known, or the rules that restrict the link are missing");
    }
  }

  async #attempt(family: IpFamily, event: string, action: () => Promise<void>): Promise<void> {
    let reason = "";
    try {
      await action();
    } catch (error) {
      reason = errorText(error);
    }
    if (reason !== "" && reason !== this.#problems.get(family))
      this.#options.log.error(event, { link: tunnelLinks[family].name, reason });
    this.#problems.set(family, reason);
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
