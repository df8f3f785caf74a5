/** Connection tracking over nfnetlink subsystem 1, as the `conntrack` program uses it. */
import { familyOf, type IpFamily } from "../../base/ip.ts";
import type { Protocol } from "../../base/protocol.ts";
import { isInvalid, isNotFound, isUnsupported } from "../../netlink/errors.ts";
import { protocols } from "../../netlink/netlink-package.ts";
import type { RequestKind } from "../../netlink/request.ts";
import { NetlinkTransport, type TransportDependencies } from "../../netlink/transport.ts";
import { type Flow, type FlowSelection, flowText, isSelected } from "../../state/flow.ts";
import type { Conntrack } from "../kernel.ts";
import { decodeFlow, encodeDeletion, encodeQuery, type FlowQuery, messageTypes } from "./codec.ts";

const listing: RequestKind<FlowQuery> = {
  type: () => messageTypes.get,
  encode: encodeQuery,
  describe: ({ family, protocol }) => ({
    operation: `list ${protocol} conntrack entries of`,
    subject: family,
  }),
};

const deletion: RequestKind<Flow> = {
  type: () => messageTypes.delete,
  encode: encodeDeletion,
  describe: (flow) => ({ operation: "delete conntrack entry", subject: flowText(flow) }),
};

/** Opens a socket. Throws NetlinkError. */
export class ConntrackClient implements Conntrack {
  readonly #transport: NetlinkTransport;
  #canFilter = true;

  constructor(parts: TransportDependencies) {
    this.#transport = new NetlinkTransport(parts, { protocol: protocols.netfilter });
  }

  listUdpFlows(family: IpFamily, selection?: FlowSelection): Promise<readonly Flow[]> {
    const selected = selection === undefined ? {} : { selection };
    return this.#listFiltered({ family, protocol: "UDP", ...selected });
  }

  /** Flows of the given protocol to one address and port. */
  listFlows(protocol: Protocol, selection: FlowSelection): Promise<readonly Flow[]> {
    return this.#listFiltered({ family: familyOf(selection.destination), protocol, selection });
  }

  async remove(flows: readonly Flow[]): Promise<number> {
    const rejected = await this.#transport.batch(deletion, flows);
    const failed = rejected.find(({ error }) => !isNotFound(error));
    if (failed !== undefined) throw failed.error;
    return flows.length - rejected.length;
  }

  close(): void {
    this.#transport.close();
  }

  async #listFiltered(query: Omit<FlowQuery, "isFiltered">): Promise<readonly Flow[]> {
    try {
      return await this.#list({ ...query, isFiltered: this.#canFilter });
    } catch (error) {
      if (!this.#canFilter || !(isInvalid(error) || isUnsupported(error))) throw error;
      // The error is the same if the kernel lacks nf_conntrack_netlink, which may be loaded later.
      const flows = await this.#list({ ...query, isFiltered: false });
      this.#canFilter = false;
      return flows;
    }
  }

  /** Applies the filter to the reply as well, because kernels before 5.8 list all flows. */
  #list(query: FlowQuery): Promise<Flow[]> {
    const { protocol, selection } = query;
    return this.#transport.dump(listing, query, ({ body }) => {
      const flow = decodeFlow(body);
      if (flow?.protocol !== protocol) return undefined;
      return selection === undefined || isSelected(flow, selection) ? flow : undefined;
    });
  }
}
