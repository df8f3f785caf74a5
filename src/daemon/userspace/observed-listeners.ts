import { listListeningSockets } from "../../kernel/listening-sockets.ts";
import type { SoughtListener } from "../../userspace/find-listeners.ts";
import type { OpenListener } from "../../userspace/listener.ts";
import {
  type DryRunReporter,
  type PendingChange,
  pendingChanges,
} from "../report/dry-run-reporter.ts";
import {
  type KnownObjects,
  listenerText,
  planUserspace,
  type SeenKernel,
} from "./plan-userspace.ts";
import type { Listeners, RulesToListeners } from "./userspace-loop.ts";

export interface ObservedListenersParts
  extends Pick<SeenKernel, "usable" | "held" | "claimMemory"> {
  readonly config: Parameters<typeof planUserspace>[2];
  /** As last known; undefined before the node is. */
  readonly objects: () => KnownObjects | undefined;
  readonly dryRun: Pick<DryRunReporter, "planned">;
}

/**
 * In place of sockets and rules while only observing: reports what a start would open and write, and shows what another
 * process has open.
 */
export class ObservedListeners implements Listeners, RulesToListeners {
  readonly openCount: number = 0;
  readonly #parts: ObservedListenersParts;
  #found: readonly OpenListener[] = [];

  constructor(parts: ObservedListenersParts) {
    this.#parts = parts;
  }

  open(): readonly OpenListener[] {
    return this.#found;
  }

  isOpen(key: string): boolean {
    return this.#found.some(({ wanted }) => wanted.key === key);
  }

  async replaceServices(): Promise<void> {}
  async retryFailed(): Promise<void> {}
  async stop(): Promise<void> {}
  forget(): void {}

  /** Rejects where rules or sockets cannot be read. */
  async sync(): Promise<boolean> {
    const { config, objects, usable, held, claimMemory, dryRun } = this.#parts;
    const known = objects();
    if (known === undefined) return false;
    const seen = { usable, held, claimMemory, sockets: listListeningSockets() };
    const plan = await planUserspace(known, seen, config);
    this.#found = plan.found;
    dryRun.planned([...plan.listeners.map(toOpen), ...pendingChanges(plan.rules)]);
    return false;
  }
}

function toOpen(listener: SoughtListener): PendingChange {
  const { service } = listener.wanted;
  return {
    kind: "listener-open",
    text: listenerText(listener),
    reason: "missing",
    servicesOf: () => [service],
  };
}
