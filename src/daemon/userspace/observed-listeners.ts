import type { ServiceName } from "../../api/objects.ts";
import { none } from "../../base/none.ts";
import { listListeningSockets } from "../../kernel/listening-sockets.ts";
import type { SoughtListener } from "../../userspace/find-listeners.ts";
import type { OpenListener } from "../../userspace/listener.ts";
import type { ServiceListener } from "../../userspace/service-listeners.ts";
import { type PendingChange, pendingChanges } from "../report/dry-run-reporter.ts";
import {
  listenerText,
  planUserspace,
  type SeenKernel,
  type UserspacePlan,
} from "./plan-userspace.ts";
import type { Listeners, RulesToListeners } from "./userspace-loop.ts";

export interface ObservedListenersContext extends Pick<SeenKernel, "usable"> {
  readonly config: Parameters<typeof planUserspace>[2];
  /** Returns the listener with only the addresses that its Service owns. */
  readonly won: (wanted: ServiceListener) => ServiceListener;
}

/**
 * Replaces sockets and rules in observe-only mode. Plans what startup would open and write, and shows the listeners
 * that another process has open.
 */
export class ObservedListeners implements Listeners, RulesToListeners {
  readonly openCount: number = 0;
  readonly #context: ObservedListenersContext;
  readonly #wanted = new Map<ServiceName, readonly ServiceListener[]>();
  /** The plan of the last sync. Undefined before the first one. */
  plan: UserspacePlan | undefined;

  constructor(context: ObservedListenersContext) {
    this.#context = context;
  }

  get pending(): readonly PendingChange[] {
    const { plan } = this;
    return plan === undefined
      ? none
      : [...plan.listeners.map(toOpen), ...pendingChanges(plan.rules)];
  }

  open(): readonly OpenListener[] {
    return this.plan?.found ?? none;
  }

  isOpen(key: string): boolean {
    return this.open().some(({ wanted }) => wanted.key === key);
  }

  async replaceServices(
    services: ReadonlyMap<ServiceName, readonly ServiceListener[]>,
  ): Promise<void> {
    for (const [name, listeners] of services) this.#wanted.set(name, listeners);
  }

  async retryFailed(): Promise<void> {}
  async stop(): Promise<void> {}
  forget(): void {}

  /** Updates the plan. Rejects if rules or sockets cannot be read. */
  async sync(): Promise<boolean> {
    const { config, usable, won } = this.#context;
    const wanted = [...this.#wanted.values()].flat().map(won);
    this.plan = await planUserspace(wanted, { usable, sockets: listListeningSockets() }, config);
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
