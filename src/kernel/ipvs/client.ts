/** `ipvsadm`'s part of the kernel, over generic netlink. */
import { familyOf, type IpFamily } from "../../base/ip.ts";
import { none } from "../../base/none.ts";
import { resolveFamily } from "../../netlink/generic.ts";
import { ListMemory } from "../../netlink/list-memory.ts";
import type { Message } from "../../netlink/message.ts";
import { protocols } from "../../netlink/netlink-package.ts";
import type { FailedRequest, RequestKind } from "../../netlink/request.ts";
import {
  type NetlinkTransport,
  openTransport,
  type TransportParts,
} from "../../netlink/transport.ts";
import type { ObservedRealServer } from "../../state/real-server.ts";
import { type VirtualServerId, virtualServerKey } from "../../state/virtual-server.ts";
import type {
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
import { commands, GENERIC_NAME } from "./constants.ts";
import { PROC_TABLE_PATH, ProcTable } from "./proc-table.ts";
import { probeScheduler } from "./scheduler-probe.ts";

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
  readonly #services = new ListMemory<ListedService>();

  constructor({ transport, procTable }: IpvsParts, familyId: number) {
    this.#transport = transport;
    this.#procTable = procTable;
    this.#familyId = familyId;
    this.#kinds = requestKinds(familyId);
  }

  async observe(familiar?: FamiliarServers): ReturnType<Ipvs["observe"]> {
    const services = await this.#services.read(readService, (decode) =>
      this.#transport.dump(this.#kinds.listServices, undefined, decode),
    );
    const realServers = await this.#procTable.read(familiar);
    const virtualServers = services.flatMap((service): readonly ObservedVirtualServer[] => {
      if (service.kind !== "virtual-server") return [];
      const { virtualServer } = service;
      const own = realServers.get(virtualServerKey(virtualServer)) ?? none;
      return [{ virtualServer, realServers: own }];
    });
    const firewallMarkCount = services.filter(({ kind }) => kind === "firewall-mark").length;
    return { virtualServers, firewallMarkCount };
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

function readService({ body }: Message): ListedService {
  return decodeService(body);
}
