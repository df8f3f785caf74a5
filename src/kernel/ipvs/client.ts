/** IPVS over generic netlink, as the `ipvsadm` program uses it. */
import { errno } from "../../base/errno.ts";
import { familyOf, type IpFamily } from "../../base/ip.ts";
import { inSlices } from "../../base/time-slice.ts";
import { DecodeError, NetlinkError } from "../../netlink/errors.ts";
import { resolveFamily } from "../../netlink/generic.ts";
import { protocols } from "../../netlink/netlink-package.ts";
import type { RequestKind } from "../../netlink/request.ts";
import { NetlinkTransport, type TransportDependencies } from "../../netlink/transport.ts";
import {
  type ObservedRealServer,
  type RealServer,
  sameRealServers,
} from "../../state/real-server.ts";
import type {
  ConnectionCounts,
  RealServerTraffic,
  VirtualServerTraffic,
} from "../../state/traffic.ts";
import {
  isWithinMask,
  type VirtualServer,
  type VirtualServerId,
  virtualServerKey,
} from "../../state/virtual-server.ts";
import type { CachedRealServers, FailedChange, Ipvs, IpvsChange, IpvsTimeouts } from "../kernel.ts";
import { describeChange, isAlreadyDone } from "./change-errors.ts";
import {
  decodeRealServer,
  decodeService,
  decodeTimeouts,
  encodeChange,
  encodeFindVirtualServer,
  encodeListRealServers,
  encodeQuery,
  encodeTimeouts,
} from "./codec.ts";
import { findEstablished } from "./connections.ts";
import { commands, GENERIC_NAME } from "./constants.ts";
import { probeScheduler } from "./scheduler-probe.ts";
import { readRealServerTraffic, readVirtualServerTraffic, sumConnections } from "./traffic.ts";

const nothingCached: CachedRealServers = () => undefined;

/** Errors for a virtual server that does not exist. EAFNOSUPPORT means that IPVS is built without IPv6. */
const absenceErrnos: ReadonlySet<number> = new Set([errno.ESRCH, errno.EAFNOSUPPORT]);

const WHEN_MISSING =
  "IPVS is not loaded or not supported: run modprobe ip_vs, or use a kernel built with CONFIG_IP_VS";

/** A socket, and the ID of the generic netlink family `IPVS`. */
interface OpenIpvs {
  readonly transport: NetlinkTransport;
  readonly familyId: number;
  readonly kinds: RequestKinds;
}

/** Opens a socket and looks up the IPVS family. Throws NetlinkError. */
async function openIpvs(parts: TransportDependencies): Promise<OpenIpvs> {
  const transport = new NetlinkTransport(parts, { protocol: protocols.generic });
  try {
    const familyId = await resolveFamily(transport, GENERIC_NAME, WHEN_MISSING);
    return { transport, familyId, kinds: requestKinds(familyId) };
  } catch (error) {
    transport.close();
    throw error;
  }
}

/**
 * The IPVS family is looked up at the first request, so that its module can be loaded first. If the lookup fails, the
 * request rejects with a NetlinkError, and the next request retries the lookup.
 */
export class IpvsClient implements Ipvs {
  readonly #parts: TransportDependencies;
  readonly #marks: readonly number[];
  #opening: Promise<OpenIpvs> | undefined;
  #isClosed = false;

  /** `marks` are masks of our firewall marks. Virtual servers with third-party marks are not listed. */
  constructor(parts: TransportDependencies, marks: readonly number[] = []) {
    this.#parts = parts;
    this.#marks = marks;
  }

  listVirtualServers(): Promise<readonly VirtualServer[]> {
    return this.#read(({ transport, kinds }) =>
      transport.dump(kinds.listServices, undefined, ({ body }) => {
        const service = decodeService(body);
        return service.kind === "virtual-server" && this.#isListed(service.virtualServer)
          ? service.virtualServer
          : undefined;
      }),
    );
  }

  findVirtualServers(ids: readonly VirtualServerId[]): Promise<readonly VirtualServer[]> {
    return this.#read(async ({ transport, kinds }) => {
      const found: VirtualServer[] = [];
      const failed = await transport.batch(kinds.findService, ids, ({ body }) => {
        const service = decodeService(body);
        if (service.kind === "virtual-server") found.push(service.virtualServer);
      });
      const unread = failed.find(({ error }) => !absenceErrnos.has(error.errno));
      if (unread !== undefined) throw unread.error;
      return found;
    });
  }

  async readRealServers(
    ids: readonly VirtualServerId[],
    cached: CachedRealServers = nothingCached,
  ): Promise<readonly (readonly RealServer[])[]> {
    const { transport, kinds } = await this.#open();
    return transport.dumpMany(kinds.listRealServers, ids, (bodies, id) => {
      const family = familyOf(id.address);
      const found = bodies.map((body) => withoutCounts(decodeRealServer(body, family)));
      const known = cached(virtualServerKey(id));
      return known !== undefined && sameRealServers(known, found) ? known : found;
    });
  }

  /** For an unknown virtual server, the kernel returns an empty list, as for one without real servers. */
  async listRealServers(
    ids: readonly VirtualServerId[],
  ): Promise<readonly (readonly ObservedRealServer[])[]> {
    const { transport, kinds } = await this.#open();
    return transport.dumpMany(kinds.listRealServers, ids, (bodies, id) =>
      bodies.map((body) => decodeRealServer(body, familyOf(id.address))),
    );
  }

  listTraffic(): Promise<readonly VirtualServerTraffic[]> {
    return this.#read(({ transport, kinds }) =>
      transport.dump(kinds.listServices, undefined, ({ body }) => {
        const server = readVirtualServerTraffic(body);
        return server !== undefined && this.#isListed(server) ? server : undefined;
      }),
    );
  }

  async sumConnections(ids: readonly VirtualServerId[]): Promise<readonly ConnectionCounts[]> {
    const { transport, kinds } = await this.#open();
    return transport.dumpMany(kinds.listRealServers, ids, sumConnections);
  }

  async hasEstablished(ids: readonly VirtualServerId[]): Promise<boolean> {
    return inSlices(this.#parts.clock, findEstablished(new Set(ids.map(virtualServerKey))));
  }

  async listRealServerTraffic(
    ids: readonly VirtualServerId[],
  ): Promise<readonly (readonly RealServerTraffic[])[]> {
    const { transport, kinds } = await this.#open();
    return transport.dumpMany(kinds.listRealServers, ids, (bodies, id) =>
      bodies.map((body) => readRealServerTraffic(body, familyOf(id.address))),
    );
  }

  async apply(changes: readonly IpvsChange[]): Promise<readonly FailedChange[]> {
    const { transport, kinds } = await this.#open();
    const rejected = await transport.batch(kinds.change, changes);
    return rejected.filter((refusal) => !isAlreadyDone(changes, refusal));
  }

  async readTimeouts(): Promise<IpvsTimeouts> {
    const { transport, kinds } = await this.#open();
    const [timeouts] = await transport.request(kinds.readTimeouts, undefined, ({ body }) =>
      decodeTimeouts(body),
    );
    if (timeouts === undefined) throw new DecodeError("reply without IPVS timeouts", 0);
    return timeouts;
  }

  async writeTimeouts(timeouts: IpvsTimeouts): Promise<void> {
    const { transport, kinds } = await this.#open();
    await transport.request(kinds.writeTimeouts, timeouts);
  }

  async checkScheduler(scheduler: string, family: IpFamily): Promise<void> {
    const { transport, familyId } = await this.#open();
    return probeScheduler(transport, familyId, scheduler, family);
  }

  close(): void {
    this.#isClosed = true;
    this.#opening?.then(
      ({ transport }) => transport.close(),
      () => undefined,
    );
  }

  #isListed({ protocol, port: mark }: VirtualServerId): boolean {
    return protocol !== "FWM" || this.#marks.some((mask) => isWithinMask(mark, mask));
  }

  /**
   * Reads virtual servers. If the module was unloaded and loaded again, the family has a new number, and the kernel
   * answers requests with the old number with ENOENT. No other error of these requests is ENOENT.
   */
  async #read<R>(read: (opened: OpenIpvs) => Promise<R>): Promise<R> {
    const opening = this.#open();
    const opened = await opening;
    try {
      return await read(opened);
    } catch (error) {
      if (!(error instanceof NetlinkError) || error.errno !== errno.ENOENT) throw error;
      if (this.#opening === opening) this.#opening = undefined;
      opened.transport.close();
      return read(await this.#open());
    }
  }

  #open(): Promise<OpenIpvs> {
    this.#opening ??= openIpvs(this.#parts).then(
      (opened) => {
        if (this.#isClosed) opened.transport.close();
        return opened;
      },
      (error: unknown) => {
        this.#opening = undefined;
        throw error;
      },
    );
    return this.#opening;
  }
}

function withoutCounts(server: ObservedRealServer): RealServer {
  const { address, port, weight, forwardingMethod, limit } = server;
  return { address, port, weight, forwardingMethod, ...(limit === undefined ? {} : { limit }) };
}

interface RequestKinds {
  readonly change: RequestKind<IpvsChange>;
  readonly listServices: RequestKind<undefined>;
  readonly findService: RequestKind<VirtualServerId>;
  readonly listRealServers: RequestKind<VirtualServerId>;
  readonly readTimeouts: RequestKind<undefined>;
  readonly writeTimeouts: RequestKind<IpvsTimeouts>;
}

function requestKinds(familyId: number): RequestKinds {
  const ipvs = { type: () => familyId };
  return {
    change: { ...ipvs, encode: encodeChange, describe: describeChange },
    listServices: {
      ...ipvs,
      encode: (writer) => encodeQuery(writer, commands.getService),
      describe: () => ({ operation: "list virtual servers", subject: "" }),
    },
    findService: {
      ...ipvs,
      encode: encodeFindVirtualServer,
      describe: (id) => ({ operation: "read virtual server", subject: virtualServerKey(id) }),
    },
    listRealServers: {
      ...ipvs,
      encode: encodeListRealServers,
      describe: (id) => ({ operation: "list real servers of", subject: virtualServerKey(id) }),
    },
    readTimeouts: {
      ...ipvs,
      encode: (writer) => encodeQuery(writer, commands.getConfig),
      describe: () => ({ operation: "read IPVS timeouts", subject: "" }),
    },
    writeTimeouts: {
      ...ipvs,
      encode: encodeTimeouts,
      describe: ({ tcpSeconds, tcpFinSeconds, udpSeconds }) => ({
        operation: "write IPVS timeouts",
        subject: `tcp ${tcpSeconds} s, tcpfin ${tcpFinSeconds} s, udp ${udpSeconds} s`,
        meaning: "a value is out of range",
      }),
    },
  };
}
