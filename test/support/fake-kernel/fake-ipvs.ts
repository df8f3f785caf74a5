import { errno } from "../../../src/base/errno.ts";
import { familyOf, hostPrefixLength, type IpFamily } from "../../../src/base/ip.ts";
import { virtualServerOf } from "../../../src/kernel/ipvs/change-errors.ts";
import type {
  CachedRealServers,
  FailedChange,
  Ipvs,
  IpvsChange,
  IpvsTimeouts,
} from "../../../src/kernel/kernel.ts";
import {
  type ObservedRealServer,
  type RealServer,
  type RealServerId,
  realServerKey,
  sameRealServers,
} from "../../../src/state/real-server.ts";
import {
  type ConnectionCounts as ConnectionSums,
  noTraffic,
  type RealServerTraffic,
  type Traffic,
  type VirtualServerTraffic,
} from "../../../src/state/traffic.ts";
import {
  isWithinMask,
  type VirtualServer,
  type VirtualServerId,
  virtualServerKey,
} from "../../../src/state/virtual-server.ts";
import type { ObservedVirtualServer } from "../observe-ipvs.ts";
import { failureError, type Operation, type Operations } from "./operations.ts";

interface HeldVirtualServer {
  virtualServer: VirtualServer;
  traffic: Traffic;
  readonly realServers: Map<string, ObservedRealServer>;
}

export interface ConnectionCounts {
  readonly active?: number;
  readonly inactive?: number;
  readonly persistent?: number;
}

/** Virtual and real servers with the kernel's rules: net/netfilter/ipvs/ip_vs_ctl.c. */
export class FakeIpvs implements Ipvs {
  readonly #operations: Operations;
  readonly #held = new Map<string, HeldVirtualServer>();
  /** Schedulers that the kernel has or can load. */
  readonly schedulers: Set<string> = new Set([
    ...["rr", "wrr", "lc", "wlc", "fo", "ovf", "lblc", "lblcr", "dh", "sh", "mh", "sed", "nq"],
  ]);
  /** Masks of the firewall marks whose virtual servers are listed. */
  portRangeMarks: readonly number[] = [0xffffffff];
  #timeouts: IpvsTimeouts = { tcpSeconds: 900, tcpFinSeconds: 120, udpSeconds: 300 };

  constructor(operations: Operations) {
    this.#operations = operations;
  }

  /** Sets the kernel's counts for a real server. Missing counts become 0. */
  setConnections(server: VirtualServerId, real: RealServerId, counts: ConnectionCounts): void {
    const held = this.#held.get(virtualServerKey(server));
    const realServer = held?.realServers.get(realServerKey(real));
    if (held === undefined || realServer === undefined) {
      throw new Error(`No real server ${realServerKey(real)} in ${virtualServerKey(server)}`);
    }
    held.realServers.set(realServerKey(real), { ...realServer, ...observedCounts(counts) });
  }

  /** Sets the kernel's counters since this virtual server was created. Missing counters become 0. */
  setTraffic(server: VirtualServerId, traffic: Partial<Traffic>): void {
    const held = this.#held.get(virtualServerKey(server));
    if (held === undefined) throw new Error(`No virtual server ${virtualServerKey(server)}`);
    held.traffic = { ...noTraffic, ...traffic };
  }

  /** Returns all virtual servers, without delay or injected failures. */
  peek(): readonly ObservedVirtualServer[] {
    return [...this.#held.values()].map(({ virtualServer, realServers }) => ({
      virtualServer,
      realServers: [...realServers.values()],
    }));
  }

  /**
   * Makes a change as another program would: it is not logged, and injected failures do not apply. Throws if the kernel
   * would reject the change.
   */
  interfere(change: IpvsChange): void {
    this.#carryOut(change);
  }

  async listVirtualServers(): Promise<readonly VirtualServer[]> {
    return this.#operations.read("ipvs", "list-virtual-servers", "", () =>
      this.peek()
        .map(({ virtualServer }) => virtualServer)
        .filter((server) => this.#isListed(server)),
    );
  }

  async findVirtualServers(ids: readonly VirtualServerId[]): Promise<readonly VirtualServer[]> {
    return this.#operations.read("ipvs", "find-virtual-servers", "", () =>
      ids.flatMap((id) => this.#held.get(virtualServerKey(id))?.virtualServer ?? []),
    );
  }

  async readRealServers(
    ids: readonly VirtualServerId[],
    cached?: CachedRealServers,
  ): Promise<readonly (readonly RealServer[])[]> {
    return this.#operations.read("ipvs", "read-real-servers", "", () =>
      ids.map((id) => this.#shared(id, cached)),
    );
  }

  /** The real servers without counts, or the cached list if it is equal. */
  #shared(id: VirtualServerId, cached?: CachedRealServers): readonly RealServer[] {
    const key = virtualServerKey(id);
    const held = [...(this.#held.get(key)?.realServers.values() ?? [])].map(bare);
    const wanted = cached?.(key);
    return wanted !== undefined && sameRealServers(wanted, held) ? wanted : held;
  }

  async listRealServers(
    ids: readonly VirtualServerId[],
  ): Promise<readonly (readonly ObservedRealServer[])[]> {
    return this.#operations.read("ipvs", "list-real-servers", "", () =>
      ids.map((id) => [...(this.#held.get(virtualServerKey(id))?.realServers.values() ?? [])]),
    );
  }

  async listTraffic(): Promise<readonly VirtualServerTraffic[]> {
    return this.#operations.read("ipvs", "list-traffic", "", () =>
      [...this.#held.values()].map(({ virtualServer, traffic }) => {
        const { protocol, address, port } = virtualServer;
        return { protocol, address, port, traffic };
      }),
    );
  }

  async sumConnections(ids: readonly VirtualServerId[]): Promise<readonly ConnectionSums[]> {
    const lists = await this.listRealServerTraffic(ids);
    return lists.map((servers) => ({
      activeConnections: servers.reduce((sum, one) => sum + one.activeConnections, 0),
      inactiveConnections: servers.reduce((sum, one) => sum + one.inactiveConnections, 0),
    }));
  }

  /** Treats each active connection as established. */
  async hasEstablished(ids: readonly VirtualServerId[]): Promise<boolean> {
    const sums = await this.sumConnections(ids);
    return sums.some(({ activeConnections }) => activeConnections > 0);
  }

  /** The fake real servers have no packet counters. */
  async listRealServerTraffic(
    ids: readonly VirtualServerId[],
  ): Promise<readonly (readonly RealServerTraffic[])[]> {
    return this.#operations.read("ipvs", "list-real-server-traffic", "", () =>
      ids.map((id) =>
        [...(this.#held.get(virtualServerKey(id))?.realServers.values() ?? [])].map(
          ({ address, port, weight, activeConnections, inactiveConnections }) => ({
            address,
            port,
            weight,
            activeConnections,
            inactiveConnections,
            traffic: noTraffic,
          }),
        ),
      ),
    );
  }

  async apply(changes: readonly IpvsChange[]): Promise<readonly FailedChange[]> {
    return this.#operations.changes(changes, ipvsOperation, (change) => this.#carryOut(change));
  }

  async readTimeouts(): Promise<IpvsTimeouts> {
    return this.#operations.read("ipvs", "read-timeouts", "", () => this.#timeouts);
  }

  async writeTimeouts(timeouts: IpvsTimeouts): Promise<void> {
    const { tcpSeconds, tcpFinSeconds, udpSeconds } = timeouts;
    const subject = `${tcpSeconds} ${tcpFinSeconds} ${udpSeconds}`;
    this.#operations.change({ facility: "ipvs", action: "write-timeouts", subject }, () => {
      this.#timeouts = {
        tcpSeconds: tcpSeconds || this.#timeouts.tcpSeconds,
        tcpFinSeconds: tcpFinSeconds || this.#timeouts.tcpFinSeconds,
        udpSeconds: udpSeconds || this.#timeouts.udpSeconds,
      };
    });
  }

  async checkScheduler(scheduler: string, family: IpFamily): Promise<void> {
    const subject = `${scheduler} ${family}`;
    this.#operations.read("ipvs", "check-scheduler", subject, () => {
      if (this.schedulers.has(scheduler)) return;
      const operation: Operation = { facility: "ipvs", action: "check-scheduler", subject };
      throw failureError(operation, errno.ENOENT);
    });
  }

  #isListed({ protocol, port }: VirtualServerId): boolean {
    return protocol !== "FWM" || this.portRangeMarks.some((mask) => isWithinMask(port, mask));
  }

  #carryOut(change: IpvsChange): void {
    switch (change.kind) {
      case "virtual-server-create":
      case "virtual-server-update":
        this.#writeVirtualServer(change);
        return;
      case "virtual-server-remove":
        this.#held.delete(virtualServerKey(change.before));
        return;
      case "real-server-create":
      case "real-server-update":
        this.#writeRealServer(change);
        return;
      case "real-server-remove":
        this.#held
          .get(virtualServerKey(change.virtualServer))
          ?.realServers.delete(realServerKey(change.before));
        return;
    }
  }

  #writeVirtualServer(
    change: IpvsChange & { readonly kind: "virtual-server-create" | "virtual-server-update" },
  ): void {
    const { after: virtualServer } = change;
    const key = virtualServerKey(virtualServer);
    const held = this.#held.get(key);
    if (held === undefined && change.kind === "virtual-server-update") {
      throw failureError(ipvsOperation(change), errno.ESRCH);
    }
    if (held !== undefined && change.kind === "virtual-server-create") {
      throw failureError(ipvsOperation(change), errno.EEXIST);
    }
    if (!this.schedulers.has(virtualServer.scheduler)) {
      throw failureError(ipvsOperation(change), errno.ENOENT);
    }
    const longest = hostPrefixLength(familyOf(virtualServer.address));
    const { persistencePrefixLength } = virtualServer;
    if (persistencePrefixLength < 1 || persistencePrefixLength > longest) {
      throw failureError(ipvsOperation(change), errno.EINVAL);
    }
    if (held === undefined) {
      this.#held.set(key, { virtualServer, traffic: noTraffic, realServers: new Map() });
    } else held.virtualServer = virtualServer;
  }

  #writeRealServer(
    change: IpvsChange & { readonly kind: "real-server-create" | "real-server-update" },
  ): void {
    const { virtualServer, after: realServer } = change;
    const held = this.#held.get(virtualServerKey(virtualServer));
    if (held === undefined) throw failureError(ipvsOperation(change), errno.ESRCH);
    const key = realServerKey(realServer);
    const present = held.realServers.get(key);
    if (present === undefined && change.kind === "real-server-update") {
      throw failureError(ipvsOperation(change), errno.ENOENT);
    }
    checkRealServer(change, realServer, virtualServer);
    if (present !== undefined && change.kind === "real-server-create") {
      throw failureError(ipvsOperation(change), errno.EEXIST);
    }
    const { limit: _replaced, ...counted } = present ?? { ...observedCounts({}), limit: undefined };
    held.realServers.set(key, { ...counted, ...bare(realServer) });
  }
}

/** ERANGE for a negative weight or a lower threshold above the upper one. EINVAL for the other family. */
function checkRealServer(change: IpvsChange, real: RealServer, server: VirtualServerId): void {
  const { upper = 0, lower = 0 } = real.limit ?? {};
  if (real.weight < 0 || lower > upper) throw failureError(ipvsOperation(change), 34);
  if (familyOf(real.address) !== familyOf(server.address)) {
    throw failureError(ipvsOperation(change), errno.EINVAL);
  }
}

/** Copies a request's fields, without counts. */
function bare({ address, port, weight, forwardingMethod, limit }: RealServer): RealServer {
  const given = { address, port, weight, forwardingMethod };
  return limit === undefined ? given : { ...given, limit };
}

function observedCounts(
  counts: ConnectionCounts,
): Pick<ObservedRealServer, "activeConnections" | "inactiveConnections" | "persistentConnections"> {
  return {
    activeConnections: counts.active ?? 0,
    inactiveConnections: counts.inactive ?? 0,
    persistentConnections: counts.persistent ?? 0,
  };
}

function ipvsOperation(change: IpvsChange): Operation {
  const server = virtualServerKey(virtualServerOf(change));
  const id = "after" in change ? change.after : change.before;
  const subject = "virtualServer" in change ? `${server} -> ${realServerKey(id)}` : server;
  return { facility: "ipvs", action: change.kind, subject };
}
