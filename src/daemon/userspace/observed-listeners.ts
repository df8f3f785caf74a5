import type { ServiceName } from "../../api/objects.ts";
import { hostPort, type IpFamily } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
import { parseRule } from "../../kernel/iptables/parse-rule.ts";
import type { Iptables } from "../../kernel/kernel.ts";
import { listListeningSockets } from "../../kernel/listening-sockets.ts";
import { findListeners, type SoughtListener } from "../../userspace/find-listeners.ts";
import type { OpenListener } from "../../userspace/listener.ts";
import { isLedTo, portalRules } from "../../userspace/portal-rules.ts";
import { byKey, type ServiceListener } from "../../userspace/service-listeners.ts";
import type { PendingChange } from "../report/dry-run-reporter.ts";
import type { Listeners } from "./userspace-loop.ts";

export interface ObservedListenersContext {
  readonly config: Pick<Config, "bindAddress">;
  /** Undefined if iptables is not available and there are only listeners. */
  readonly iptables: Pick<Iptables, "observe"> | undefined;
  /** Returns the listener with only the addresses that its Service owns. */
  readonly won: (wanted: ServiceListener) => ServiceListener;
  /** Defaults to this machine's sockets. */
  readonly listSockets?: typeof listListeningSockets;
}

/**
 * Replaces the sockets in observe-only mode. Determines which listeners startup would open, and shows the listeners
 * that another process has open.
 */
export class ObservedListeners implements Listeners {
  readonly openCount: number = 0;
  readonly #context: ObservedListenersContext;
  readonly #wanted = new Map<ServiceName, readonly ServiceListener[]>();
  /** The listeners of each family at the last {@link look}. */
  readonly #sought = new Map<IpFamily, readonly SoughtListener[]>();

  constructor(context: ObservedListenersContext) {
    this.#context = context;
  }

  /** Looks for the wanted listeners of a family. Rejects if rules or sockets cannot be read. */
  async look(family: IpFamily): Promise<void> {
    const { config, iptables, won, listSockets = listListeningSockets } = this.#context;
    const planned = portalRules(family, []);
    const chains = (await iptables?.observe(family, { planned })) ?? [];
    const wanted = [...this.#wanted.values()].flat().filter((one) => one.family === family);
    const listenRule = { ...config, isRedirected: iptables !== undefined };
    const sought = findListeners(wanted.map(won), listenRule, {
      sockets: listSockets(),
      rulesOf: (_, name) =>
        chains
          .filter((chain) => chain.table === "nat" && chain.name === name)
          .flatMap(({ rules }) => rules.flatMap(({ text }) => parseRule(text) ?? [])),
    });
    this.#sought.set(family, sought);
  }

  open(): readonly OpenListener[] {
    return this.#all().flatMap(({ wanted, localPorts }) =>
      localPorts === undefined ? [] : [{ wanted, localPorts }],
    );
  }

  /** The listeners for which rules are planned. A listener that is not open has port 0, which means unknown. */
  openOnceStarted(): readonly OpenListener[] {
    const unknown = { port: 0, portOnLoopback: 0 };
    return this.#all().map(({ wanted, localPorts = unknown }) => ({ wanted, localPorts }));
  }

  /** The listeners that startup would open. */
  toOpen(): readonly SoughtListener[] {
    return this.#all().filter(
      ({ wanted, address, localPorts }) =>
        localPorts === undefined && (address.isRedirected !== true || isLedTo(wanted)),
    );
  }

  get pending(): readonly PendingChange[] {
    return this.toOpen().map((listener) => ({
      kind: "listener-open",
      text: listenerText(listener),
      reason: "missing",
      servicesOf: () => [listener.wanted.servicePort.service],
    }));
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

  #all(): readonly SoughtListener[] {
    return [...this.#sought.values()].flat().sort((one, other) => byKey(one.wanted, other.wanted));
  }
}

/**
 * Describes a listener that startup would open, such as `+ TCP 0.0.0.0 at a free port for 10.96.0.10:80, node port
 * 30080`. Pure.
 */
export function listenerText({ wanted, address }: SoughtListener): string {
  const { protocol, nodePort } = wanted;
  const place =
    address.port === 0 ? `${address.host} at a free port` : hostPort(address.host, address.port);
  const ways = [...addressesOf(wanted), ...(nodePort === 0 ? [] : [`node port ${nodePort}`])];
  const led = address.isRedirected === true ? ` for ${ways.join(", ")}` : "";
  return `+ ${protocol} ${place}${led}`;
}

/** The virtual IPs and ports that rules redirect to the listener, such as `10.96.0.10:80`. Pure. */
export function addressesOf({
  addresses,
  port,
}: Pick<SoughtListener["wanted"], "addresses" | "port">): readonly string[] {
  return addresses.map((address) => hostPort(address, port));
}
