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

export interface KnownNodeParts {
  readonly kernel: NetworkReader;
  readonly live: LiveConfig;
  /** Families whose programs and kernel parts work here. */
  readonly families: readonly IpFamily[];
  /** Where the API servers are, as far as is known at the moment. */
  readonly apiServers: () => readonly ServerEndpoint[];
  /** Undefined if none are known. */
  readonly otherNodes?: Pick<OtherNodes, "reserved" | "podNetworks">;
}

/** What is known of this node, and the options of planning that follow from it. */
export class KnownNode {
  readonly #parts: KnownNodeParts;
  #record: NodeRecord | undefined;
  #network: NodeNetwork = emptyNetwork;
  #healthCheckAddresses: ReadonlyMap<IpFamily, readonly IpAddress[]> = new Map();
  #options: PlanOptions | undefined;
  /** Node, links or addresses may differ from what `#options` was made of. */
  #isStale = true;

  constructor(parts: KnownNodeParts) {
    this.#parts = parts;
  }

  /** The last-known Node object; absent: never. */
  get record(): NodeRecord | undefined {
    return this.#record;
  }

  /** As of the last {@link refresh}. */
  get place(): NodePlace {
    return this.#options?.place ?? { nodeName: this.#parts.live.current.nodeName, zone: "" };
  }

  /** Addresses on links other than kube-ipvs0, as read last. */
  get addresses(): ReadonlySet<IpAddress> {
    return this.#network.ofNode;
  }

  /** Addresses on kube-ipvs0, as read last; undefined where there is no such link. */
  get bound(): readonly IpAddress[] | undefined {
    return this.#network.bound;
  }

  /** Where health-check node ports listen. */
  get healthCheckAddresses(): ReadonlyMap<IpFamily, readonly IpAddress[]> {
    return this.#healthCheckAddresses;
  }

  /** The last object seen counts after a deletion, as upstream. */
  noteRecord(record: NodeRecord | undefined): void {
    if (record !== undefined) this.#record = record;
    this.#isStale = true;
  }

  /** Something may have changed: the next {@link refresh} reads everything again. */
  noteStale(): void {
    this.#isStale = true;
  }

  /**
   * Reads the node again where it may have changed. The object is the one given before while nothing in it
   * differs. It takes the addresses of other Nodes at its end. A caller must plan at once: a Service that arrives
   * in between may name a Node's address that is not reserved yet. Throws what the kernel says.
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

  /** Reads the network now; where planning would see a difference, the node is stale. */
  async look(): Promise<{ readonly network: NodeNetwork; readonly isChanged: boolean }> {
    const network = await this.#read();
    const isChanged = !sameNetwork(network, this.#network);
    if (isChanged) this.#isStale = true;
    return { network, isChanged };
  }

  #read(): Promise<NodeNetwork> {
    const { kernel, apiServers, otherNodes } = this.#parts;
    const others = () => ({
      apiServers: apiServers(),
      nodeAddresses: otherNodes?.reserved,
      podNetworks: otherNodes?.podNetworks,
    });
    return readNodeNetwork(kernel, others, this.#network);
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
