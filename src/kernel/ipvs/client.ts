/** `ipvsadm`'s part of the kernel, over generic netlink. */
import { familyOf, type IpFamily } from "../../base/ip.ts";
import { none } from "../../base/none.ts";
import { resolveFamily } from "../../netlink/generic.ts";
import { protocols } from "../../netlink/netlink-package.ts";
import type { FailedRequest, RequestKind } from "../../netlink/request.ts";
import {
  type NetlinkTransport,
  openTransport,
  type TransportParts,
} from "../../netlink/transport.ts";
import {
  type ObservedRealServer,
  type RealServer,
  sameRealServers,
} from "../../state/real-server.ts";
import { type VirtualServerId, virtualServerKey } from "../../state/virtual-server.ts";
import type {
  ExpectedServers,
  FailedChange,
  FamiliarServers,
  Ipvs,
  IpvsChange,
  IpvsTimeouts,
  ObservedVirtualServer,
} from "../kernel.ts";
import {
  asUpdate,
  describeChange,
  isAlreadyDone,
  isCreationOfExisting,
  notSuperseded,
} from "./change-errors.ts";
import {
  decodeRealServer,
  decodeService,
  decodeTimeouts,
  encodeChange,
  encodeListRealServers,
  encodeQuery,
  encodeTimeouts,
  type ListedService,
  printIpvsMessage,
} from "./codec.ts";
import { Confirmation } from "./confirmation.ts";
import { commands, GENERIC_NAME } from "./constants.ts";
import { ListedBlock } from "./listed-block.ts";
import { PROC_TABLE_PATH, ProcTable } from "./proc-table.ts";
import { probeScheduler } from "./scheduler-probe.ts";
import type { TakeServerBlock } from "./server-block.ts";

/**
 * A page of /proc/net/ip_vs is sought from the table's beginning, so reading it grows with the square of its length. In
 * larger tables the real servers are asked for one virtual server at a time. See docs/decisions/0002.
 */
const mostInProcTable: TableSize = { virtualServers: 20_000, bytes: 8 * 1024 * 1024 };

export interface TableSize {
  readonly virtualServers: number;
  /** Of /proc/net/ip_vs. */
  readonly bytes: number;
}

const nothingFamiliar: FamiliarServers = () => undefined;

const WHEN_MISSING =
  "the kernel has no IPVS: modprobe ip_vs, or use a kernel that is built with CONFIG_IP_VS";

/** The client, and the end of its socket. */
export interface OpenIpvs extends Ipvs {
  close(): void;
}

export interface OpenIpvsParts extends TransportParts {
  /** Another file in place of /proc/net/ip_vs, for tests. */
  readonly procTablePath?: string;
  /** Another bound for its use, for tests. */
  readonly mostInProcTable?: TableSize;
}

/** Opens a socket and finds IPVS in the kernel. Throws NetlinkError. */
export async function openIpvs(parts: OpenIpvsParts): Promise<OpenIpvs> {
  const transport = openTransport(parts, {
    protocol: protocols.generic,
    printBody: printIpvsMessage,
  });
  try {
    const familyId = await resolveFamily(transport, GENERIC_NAME, WHEN_MISSING);
    const path = parts.procTablePath ?? PROC_TABLE_PATH;
    const procTable = new ProcTable(parts.clock, path);
    return new IpvsClient({ mostInProcTable, ...parts, transport, procTable }, familyId);
  } catch (error) {
    transport.close();
    throw error;
  }
}

interface IpvsParts {
  readonly transport: NetlinkTransport;
  readonly procTable: ProcTable;
  readonly mostInProcTable: TableSize;
}

class IpvsClient implements OpenIpvs {
  readonly #transport: NetlinkTransport;
  readonly #procTable: ProcTable;
  readonly #mostInProcTable: TableSize;
  readonly #familyId: number;
  readonly #kinds: RequestKinds;
  readonly #confirmation = new Confirmation();

  constructor({ transport, procTable, mostInProcTable }: IpvsParts, familyId: number) {
    this.#transport = transport;
    this.#procTable = procTable;
    this.#mostInProcTable = mostInProcTable;
    this.#familyId = familyId;
    this.#kinds = requestKinds(familyId);
  }

  async observe(familiar: FamiliarServers = nothingFamiliar): ReturnType<Ipvs["observe"]> {
    this.#confirmation.forget();
    const services = await this.#transport.dump(
      this.#kinds.listServices,
      undefined,
      ({ body }): ListedService => decodeService(body),
    );
    const ids = services
      .filter((service) => service.kind === "virtual-server")
      .map(({ virtualServer }) => virtualServer);
    const realServers = await this.#readRealServers(ids, familiar);
    const virtualServers = ids.map(
      (virtualServer): ObservedVirtualServer => ({
        virtualServer,
        realServers: realServers.get(virtualServerKey(virtualServer)) ?? none,
      }),
    );
    const firewallMarkCount = services.filter(({ kind }) => kind === "firewall-mark").length;
    return { virtualServers, firewallMarkCount };
  }

  async confirm(expected: ExpectedServers): Promise<boolean> {
    const pass = this.#confirmation.begin(expected);
    await this.#transport.dump(this.#kinds.listServices, undefined, ({ body }) => {
      pass.takeService(body);
    });
    if (!pass.isWrong)
      await this.#eachBlock(expected.count, expected.ids, (block) => pass.takeBlock(block));
    return this.#confirmation.end(pass);
  }

  /** `ids`: of all virtual servers that have an address. */
  #eachBlock(
    count: number,
    ids: () => Iterable<VirtualServerId>,
    take: TakeServerBlock,
  ): Promise<boolean> {
    const { virtualServers, bytes } = this.#mostInProcTable;
    const isLarge = count > virtualServers || this.#procTable.lastBytes > bytes;
    return isLarge ? this.#eachListing(ids(), take) : this.#procTable.eachBlock(take);
  }

  #eachListing(ids: Iterable<VirtualServerId>, take: TakeServerBlock): Promise<boolean> {
    return this.#transport.dumpEach(
      this.#kinds.listRealServers,
      ids,
      ({ body }) => body,
      (id, bodies) => take(new ListedBlock(id, bodies)),
    );
  }

  /** A list that is as the familiar one is that list itself: a large table is not in memory twice. */
  async #readRealServers(
    ids: readonly VirtualServerId[],
    familiar: FamiliarServers,
  ): Promise<ReadonlyMap<string, readonly RealServer[]>> {
    const table = new Map<string, readonly RealServer[]>();
    await this.#eachBlock(
      ids.length,
      () => ids,
      (block) => {
        const [key, realServers] = block.read() ?? [];
        if (key === undefined || realServers === undefined) return true;
        const wanted = familiar(key);
        const isFamiliar = wanted !== undefined && sameRealServers(wanted, realServers);
        table.set(key, isFamiliar ? wanted : realServers);
        return true;
      },
    );
    return table;
  }

  /** The kernel answers for an unknown virtual server as for one without real servers. */
  listRealServers(
    ids: readonly VirtualServerId[],
  ): Promise<readonly (readonly ObservedRealServer[])[]> {
    return this.#transport.dumpMany(this.#kinds.listRealServers, ids, ({ body }, id) =>
      decodeRealServer(body, familyOf(id.address)),
    );
  }

  async apply(changes: readonly IpvsChange[]): Promise<readonly FailedChange[]> {
    for (const { virtualServer } of changes) {
      this.#confirmation.noteChanged(virtualServerKey(virtualServer));
    }
    const refused = await this.#transport.batch(this.#kinds.change, changes);
    const existing = refused.filter((refusal) => isCreationOfExisting(changes, refusal));
    const failed: FailedChange[] = refused.filter(
      (refusal) => !isCreationOfExisting(changes, refusal) && !isAlreadyDone(changes, refusal),
    );
    const updates = notSuperseded(changes, existing);
    failed.push(...(await this.#update(changes, updates)));
    return failed.sort((a, b) => a.index - b.index);
  }

  /** Creations of what exists, once more as updates. */
  async #update(
    changes: readonly IpvsChange[],
    refused: readonly FailedRequest[],
  ): Promise<FailedChange[]> {
    const updates = refused.map(({ index }) => asUpdate(changes[index] as IpvsChange));
    const again = await this.#transport.batch(this.#kinds.change, updates);
    return again.map(({ index, error }) => ({ index: refused[index]?.index ?? -1, error }));
  }

  async readTimeouts(): Promise<IpvsTimeouts> {
    const [timeouts] = await this.#transport.request(
      this.#kinds.readTimeouts,
      undefined,
      ({ body }) => decodeTimeouts(body),
    );
    return timeouts ?? { tcpSeconds: 0, tcpFinSeconds: 0, udpSeconds: 0 };
  }

  async writeTimeouts(timeouts: IpvsTimeouts): Promise<void> {
    await this.#transport.request(this.#kinds.writeTimeouts, timeouts);
  }

  checkScheduler(scheduler: string, family: IpFamily): Promise<void> {
    return probeScheduler(this.#transport, this.#familyId, scheduler, family);
  }

  close(): void {
    this.#procTable.close();
    this.#transport.close();
  }
}

interface RequestKinds {
  readonly change: RequestKind<IpvsChange>;
  readonly listServices: RequestKind<undefined>;
  readonly listRealServers: RequestKind<VirtualServerId>;
  readonly readTimeouts: RequestKind<undefined>;
  readonly writeTimeouts: RequestKind<IpvsTimeouts>;
}

function requestKinds(familyId: number): RequestKinds {
  const ipvs = { type: () => familyId, flags: () => 0 };
  return {
    change: { ...ipvs, encode: encodeChange, describe: describeChange },
    listServices: {
      ...ipvs,
      encode: (writer) => encodeQuery(writer, commands.getService),
      describe: () => ({ operation: "list virtual servers", subject: "" }),
    },
    listRealServers: {
      ...ipvs,
      encode: encodeListRealServers,
      describe: (id) => ({ operation: "list real servers of", subject: virtualServerKey(id) }),
    },
    readTimeouts: {
      ...ipvs,
      encode: (writer) => encodeQuery(writer, commands.getConfig),
      describe: () => ({ operation: "read IPVS time-outs", subject: "" }),
    },
    writeTimeouts: {
      ...ipvs,
      encode: encodeTimeouts,
      describe: ({ tcpSeconds, tcpFinSeconds, udpSeconds }) => ({
        operation: "write IPVS time-outs",
        subject: `tcp ${tcpSeconds} s, tcpfin ${tcpFinSeconds} s, udp ${udpSeconds} s`,
        meaning: "the kernel refuses what is out of range",
      }),
    },
  };
}
