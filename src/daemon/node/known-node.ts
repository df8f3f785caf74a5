import type { NodeRecord } from "../../api/objects.ts";
import type { ServerEndpoint } from "../../api/source.ts";
import type { IpAddress, IpFamily } from "../../base/ip.ts";
import type { NodePlace } from "../../model/topology.ts";
import type { PlanOptions } from "../../plan/options.ts";
import type { LiveConfig } from "../process/live-config.ts";
import { healthCheckAddresses, planOptionsOf, sameOptions } from "./node-facts.ts";
import {
  emptyNetwork,
  type NetworkReader,
  type NodeNetwork,
  readNodeNetwork,
  sameNetwork,
} from "./node-network.ts";
import type { OtherNodes } from "./other-nodes.ts";

export interface KnownNodeContext {
  readonly kernel: NetworkReader;
  readonly live: LiveConfig;
  /** IP families that iptables and the kernel support on this node. */
  readonly families: readonly IpFamily[];
  /** The currently known addresses and ports of the API servers. */
  readonly apiServers: () => readonly ServerEndpoint[];
  /** Undefined if other Nodes are not read. */
  readonly otherNodes?: Pick<OtherNodes, "reserved" | "podNetworks">;
}

/** Caches the facts about this node, and derives the planning options from them. */
export class KnownNode {
  readonly #parts: KnownNodeContext;
  #record: NodeRecord | undefined;
  #network: NodeNetwork = emptyNetwork;
  #healthCheckAddresses: ReadonlyMap<IpFamily, readonly IpAddress[]> = new Map();
  #options: PlanOptions | undefined;
  /** The Node object, links or addresses may have changed since `#options` was computed. */
  #isStale = true;

  constructor(parts: KnownNodeContext) {
    this.#parts = parts;
  }

  /** The last known Node object. Undefined if it was never seen. */
  get record(): NodeRecord | undefined {
    return this.#record;
  }

  /** The node's name and zone, as of the last {@link refresh}. */
  get place(): NodePlace {
    return this.#options?.place ?? { nodeName: this.#parts.live.current.nodeName, zone: "" };
  }

  /** Addresses on links other than kube-ipvs0, as last read. */
  get addresses(): ReadonlySet<IpAddress> {
    return this.#network.ofNode;
  }

  /** Addresses on kube-ipvs0, as last read. Undefined if the link does not exist. */
  get bound(): readonly IpAddress[] | undefined {
    return this.#network.bound;
  }

  /** Addresses on which health-check node ports listen, by family. */
  get healthCheckAddresses(): ReadonlyMap<IpFamily, readonly IpAddress[]> {
    return this.#healthCheckAddresses;
  }

  /** Records the Node object. After it is deleted, its last known state remains in use, as in kube-proxy. */
  noteRecord(record: NodeRecord | undefined): void {
    if (record !== undefined) this.#record = record;
    this.#isStale = true;
  }

  /** Call this when something may have changed. The next {@link refresh} then rereads everything. */
  noteStale(): void {
    this.#isStale = true;
  }

  /**
   * Rereads the node if it may have changed. Returns the same object while no option has changed. Reserves the
   * addresses of other Nodes that Services name. The caller must take the objects to plan as soon as this resolves,
   * because a Service that arrives later may name a Node address that is not reserved yet. Rejects with the kernel's
   * error.
   */
  async refresh(): Promise<PlanOptions> {
    if (!this.#isStale && this.#options !== undefined) return this.#options;
    this.#isStale = false;
    try {
      this.#network = await this.#read();
    } catch (error) {
      this.#isStale = true;
      throw error;
    }
    return this.#updateOptions();
  }

  /** Reads the network now. If it differs in a way that affects planning, marks the node as stale. */
  async look(): Promise<{ readonly network: NodeNetwork; readonly isChanged: boolean }> {
    const network = await this.#read();
    const isChanged = !sameNetwork(network, this.#network);
    if (isChanged) this.#isStale = true;
    return { network, isChanged };
  }

  async #read(): Promise<NodeNetwork> {
    const { kernel, apiServers, otherNodes, live } = this.#parts;
    const isTunneling = live.current.tunnelForwarding && kernel.tunnels !== undefined;
    const tunnels = isTunneling ? { otherTunnels: await kernel.tunnels.listOthers() } : {};
    const others = () => ({
      apiServers: apiServers(),
      nodeAddresses: otherNodes?.reserved,
      podNetworks: otherNodes?.podNetworks,
    });
    return { ...(await readNodeNetwork(kernel, others, this.#network)), ...tunnels };
  }

  #updateOptions(): PlanOptions {
    const { live, families } = this.#parts;
    const facts = { config: live.current, families, node: this.#record, network: this.#network };
    this.#healthCheckAddresses = healthCheckAddresses(facts);
    const options = planOptionsOf(facts);
    if (this.#options === undefined || !sameOptions(options, this.#options)) {
      this.#options = options;
    }
    return this.#options;
  }
}
