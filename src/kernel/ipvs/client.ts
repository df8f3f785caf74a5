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
import { PROC_TABLE_PATH, ProcTable } from "./proc-table.ts";
import { probeScheduler } from "./scheduler-probe.ts";

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
    return new IpvsClient({ transport, procTable }, familyId);
  } catch (error) {
    transport.close();
    throw error;
  }
}

interface IpvsParts {
  readonly transport: NetlinkTransport;
  readonly procTable: ProcTable;
}

class IpvsClient implements OpenIpvs {
  readonly #transport: NetlinkTransport;
  readonly #procTable: ProcTable;
  readonly #familyId: number;
  readonly #kinds: RequestKinds;
  readonly #confirmation = new Confirmation();

  constructor({ transport, procTable }: IpvsParts, familyId: number) {
    this.#transport = transport;
    this.#procTable = procTable;
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
    const realServers = await this.#readRealServers(familiar);
    const virtualServers = services.flatMap((service): readonly ObservedVirtualServer[] => {
      if (service.kind !== "virtual-server") return [];
      const { virtualServer } = service;
      const own = realServers.get(virtualServerKey(virtualServer)) ?? none;
      return [{ virtualServer, realServers: own }];
    });
    const firewallMarkCount = services.filter(({ kind }) => kind === "firewall-mark").length;
    return { virtualServers, firewallMarkCount };
  }

  async confirm(expected: ExpectedServers): Promise<boolean> {
    const pass = this.#confirmation.begin(expected);
    await this.#transport.dump(this.#kinds.listServices, undefined, ({ body }) => {
      pass.takeService(body);
    });
    if (!pass.isWrong) await this.#procTable.eachBlock((block) => pass.takeBlock(block));
    return this.#confirmation.end(pass);
  }

  /** A list that is as the familiar one is that list itself: a large table is not in memory twice. */
  async #readRealServers(
    familiar: FamiliarServers,
  ): Promise<ReadonlyMap<string, readonly RealServer[]>> {
    const table = new Map<string, readonly RealServer[]>();
    await this.#procTable.eachBlock((block) => {
      const [key, realServers] = block.read() ?? [];
      if (key === undefined || realServers === undefined) return true;
      const wanted = familiar(key);
      const isFamiliar = wanted !== undefined && sameRealServers(wanted, realServers);
      table.set(key, isFamiliar ? wanted : realServers);
      return true;
    });
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
