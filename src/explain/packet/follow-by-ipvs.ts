/** The whole way of a packet in mode ipvs: rules before IPVS, the virtual server, rules behind it for each real server. Pure. */
import type { RealServer } from "../../state/real-server.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import { deliver } from "./deliver.ts";
import type { Surroundings } from "./match-rule.ts";
import type { Packet, Passing } from "./packet.ts";
import type { EndpointPath, EndpointsOnNode, PacketPath, PathEnd } from "./path.ts";
import { isLocal } from "./picture.ts";
import { type Hook, type Step, type Traversal, traverse } from "./traverse.ts";

export function followByIpvs(
  packet: Packet,
  surroundings: Surroundings,
  onNode: EndpointsOnNode,
): PacketPath {
  const path = new PathWalk(packet, surroundings, onNode);
  const end = packet.isFromNode ? path.fromNode() : path.fromOutside();
  return { steps: path.steps, end };
}

class PathWalk {
  readonly steps: Step[] = [];
  readonly #packet: Packet;
  readonly #surroundings: Surroundings;
  readonly #onNode: EndpointsOnNode;
  #mark = 0;

  constructor(packet: Packet, surroundings: Surroundings, onNode: EndpointsOnNode) {
    this.#packet = packet;
    this.#surroundings = surroundings;
    this.#onNode = onNode;
  }

  /** PREROUTING, the routing decision, INPUT, IPVS. */
  fromOutside(): PathEnd {
    this.#pass("PREROUTING", "nat");
    return this.#isToNode()
      ? (this.#input() ?? this.#balance() ?? { kind: "node" })
      : this.#forward();
  }

  /** nat OUTPUT, IPVS, and where IPVS does not take it the rest of OUTPUT, and INPUT by the loopback link. */
  fromNode(): PathEnd {
    this.#pass("OUTPUT", "nat");
    const balanced = this.#balance();
    if (balanced !== undefined) return balanced;
    const stopped = this.#filter("OUTPUT");
    if (stopped !== undefined) return stopped;
    return this.#isToNode() ? (this.#input() ?? { kind: "node" }) : this.#forward();
  }

  #isToNode(): boolean {
    const { picture, network } = this.#surroundings;
    const { destination } = this.#packet;
    return isLocal(destination, picture, network) || destination.startsWith("127.");
  }

  #input(): PathEnd | undefined {
    return this.#filter("INPUT");
  }

  #forward(): PathEnd {
    const link = this.#surroundings.network.routes.get(this.#packet.destination)?.link;
    return { kind: "forwarded", ...(link === undefined ? {} : { link }) };
  }

  #pass(hook: Hook, table: "nat" | "filter"): Traversal {
    const traversal = traverse(hook, table, this.#passing(), this.#surroundings);
    this.#mark = traversal.mark;
    this.steps.push(...traversal.steps);
    return traversal;
  }

  #filter(hook: Hook): PathEnd | undefined {
    const { verdict, steps } = this.#pass(hook, "filter");
    if (verdict === "pass") return undefined;
    const by = steps.at(-1);
    return {
      kind: verdict === "drop" ? "dropped" : "refused",
      ...(by === undefined ? {} : { by }),
    };
  }

  #passing(): Passing {
    const { destination, port } = this.#packet;
    return { packet: this.#packet, destination, port, mark: this.#mark };
  }

  /** Undefined: no virtual server is there. */
  #balance(): PathEnd | undefined {
    const { protocol, destination: address, port } = this.#packet;
    if (protocol === "ICMP") return undefined;
    const key = virtualServerKey({ protocol, address, port });
    const server = this.#surroundings.picture.servers.get(key);
    if (server === undefined) return undefined;
    const taking = server.realServers.filter(({ weight }) => weight > 0);
    if (taking.length === 0) return { kind: "no-endpoint" };
    return { kind: "balanced", endpoints: taking.map((one) => this.#toEndpoint(one)) };
  }

  /** IPVS sends it through OUTPUT, also when it came from outside; nat has decided before. */
  #toEndpoint(realServer: RealServer): EndpointPath {
    const { picture, network } = this.#surroundings;
    const { address, port } = realServer;
    const packet = this.#packet;
    const virtual = { address: packet.destination, port: packet.port };
    const passing: Passing = { packet, destination: address, port, mark: this.#mark, virtual };
    const isHere = isLocal(address, picture, network);
    // What came from outside for a process of this node goes on up; it leaves nowhere.
    if (isHere && !packet.isFromNode) return this.#delivered(realServer, [], false);
    const filtered = traverse("OUTPUT", "filter", passing, this.#surroundings);
    if (filtered.verdict !== "pass") {
      const fate = filtered.verdict === "drop" ? "dropped" : "refused";
      return { realServer, steps: filtered.steps, fate, isMasqueraded: false };
    }
    const marked = { ...passing, mark: filtered.mark };
    const leaving = traverse("POSTROUTING", "nat", marked, this.#surroundings);
    const isMasqueraded = leaving.isMasqueraded && network.isIpvsTracked;
    return this.#delivered(realServer, [...filtered.steps, ...leaving.steps], isMasqueraded);
  }

  #delivered(endpoint: RealServer, steps: readonly Step[], isMasqueraded: boolean): EndpointPath {
    const arrival = { packet: this.#packet, endpoint, onNode: this.#onNode, steps, isMasqueraded };
    return deliver(arrival, this.#surroundings);
  }
}
