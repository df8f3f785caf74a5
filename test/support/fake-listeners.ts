import { hash } from "node:crypto";
import type { Listeners } from "../../src/daemon/userspace/userspace-loop.ts";
import type { OpenListener } from "../../src/userspace/listener.ts";
import type { ServiceListener } from "../../src/userspace/service-listeners.ts";

/** The listeners of userspace mode without sockets. The same service port always gets the same local port. */
export class FakeListeners implements Listeners {
  readonly openCount = 0;
  readonly #wanted = new Map<string, readonly ServiceListener[]>();

  open(): readonly OpenListener[] {
    return [...this.#wanted.values()].flat().map((wanted) => {
      const port = 10_000 + (Number.parseInt(hash("sha256", wanted.key).slice(0, 8), 16) % 20_000);
      return { wanted, localPorts: { port, portOnLoopback: port } };
    });
  }

  isOpen(key: string): boolean {
    return this.open().some(({ wanted }) => wanted.key === key);
  }

  async replaceServices(services: ReadonlyMap<string, readonly ServiceListener[]>): Promise<void> {
    for (const [service, wanted] of services) this.#wanted.set(service, wanted);
  }

  async retryFailed(): Promise<void> {}

  async stop(): Promise<void> {
    this.#wanted.clear();
  }
}
