/** Follows a connection's packets after the first one has reached an endpoint. Pure. */

import type { IpAddress } from "../../base/ip.ts";
import type { RealServerId } from "../../state/real-server.ts";
import { isHere, isLocal, leavingAddress, type NodeState } from "./node-state.ts";
import type { Packet, PacketOnPath } from "./packet.ts";
import {
  deliveryPlaces,
  filterHooks,
  filterPlaces,
  firstPlaces,
  lastPlaces,
  linkPlaces,
  outputPlaces,
  type Place,
  passTables,
  type Step,
  type Traversal,
} from "./traverse.ts";

/** A packet on its way to an endpoint. No rule has dropped or rejected it. */
export interface ArrivedPacket {
  readonly packet: Packet;
  readonly endpoint: RealServerId;
  readonly steps: readonly Step[];
  /** If false, the endpoint sees the packet's own source address. */
  readonly isMasqueraded: boolean;
  readonly isByIpvs: boolean;
}

/** The reply and later packets of a connection. */
export interface RestOfConnection {
  /** The rules that drop or reject packets. If there are none, the rules that may do so but cannot be evaluated. */
  readonly steps: readonly Step[];
  /** Undefined if the rules let all packets pass. */
  readonly lost?: {
    readonly packets: "replies" | "later packets";
    readonly verdict: "dropped" | "refused";
  };
}

/** The chains that a packet traverses with the same addresses and ports. */
type Stage = readonly [places: readonly Place[], onPath: PacketOnPath];

/**
 * Follows an endpoint's reply to the client and, if the protocol has connections, the client's next packet. Rules that
 * match connection states or TCP flags treat these packets differently from the first one.
 */
export function followConnection(
  arrived: ArrivedPacket,
  seenSource: IpAddress | undefined,
  state: NodeState,
): RestOfConnection {
  const doubts: Step[] = [];
  const isNew = (step: Step): boolean =>
    ![...arrived.steps, ...doubts].some(
      (one) => one.chain === step.chain && one.rule === step.rule,
    );
  const { protocol } = arrived.packet;
  const hasHandshake = protocol === "TCP" || protocol === "SCTP";
  for (const packets of [
    "replies",
    ...(hasHandshake ? (["later packets"] as const) : []),
  ] as const) {
    const passed =
      packets === "replies"
        ? followAnswer(arrived, seenSource, state)
        : followLater(arrived, state);
    const { verdict, steps } = passed;
    if (verdict !== "pass") return { steps, lost: { packets, verdict } };
    doubts.push(...steps.filter((step) => step.isMaybe && isNew(step)));
  }
  return { steps: doubts };
}

/**
 * Follows a reply through the rules. The reply is addressed to the source that the endpoint saw. nat translates this
 * address back to the client's. IPVS changes the reply's source to the Service's address before filter OUTPUT and
 * before POSTROUTING; nat does so after these chains. Port 0 stands for the client's unknown port.
 */
function followAnswer(
  { packet, endpoint: { address, port: endpointPort }, isByIpvs }: Omit<ArrivedPacket, "steps">,
  seenSource: IpAddress | undefined,
  state: NodeState,
): Pick<Traversal, "verdict" | "steps"> {
  const { source: client, destination: virtual, port: virtualPort } = packet;
  const isFromNode = isHere(address, state);
  const isToNode = isHere(client, state);
  const inLink = isFromNode ? "" : (state.network.routes.get(address)?.link ?? "");
  const way = { destination: client, port: 0, inLink, isFromNode, isBridged: false };
  const answer: PacketOnPath = {
    packet: { ...packet, ...way, source: address },
    ...{ destination: client, port: 0, mark: 0, stage: "answer", endpointPort },
  };
  const translated: PacketOnPath = {
    ...{ ...answer, endpointPort: virtualPort },
    packet: { ...answer.packet, source: virtual },
  };
  const leaving = isByIpvs ? translated : answer;
  const stages: readonly Stage[] = [
    ...(isFromNode
      ? ([
          [firstPlaces("OUTPUT"), answer],
          [filterPlaces(["OUTPUT"]), leaving],
          // Through the loopback link.
          ...(isToNode ? ([[filterPlaces(["INPUT"]), translated]] as const) : []),
        ] as const)
      : ([
          [firstPlaces("PREROUTING"), { ...answer, destination: seenSource ?? client }],
          [filterPlaces([isToNode ? "INPUT" : "FORWARD"]), answer],
        ] as const)),
    ...(isToNode
      ? []
      : ([
          [lastPlaces, leaving],
          [linkPlaces, translated],
        ] as const)),
  ];
  return passStages(stages, state);
}

/**
 * Follows the client's packet after the reply. Connection tracking or IPVS translates it like the first one, without
 * the nat rules.
 */
function followLater(
  { packet, endpoint: { address, port }, isMasqueraded, isByIpvs }: ArrivedPacket,
  state: NodeState,
): Pick<Traversal, "verdict" | "steps"> {
  const { isFromNode, destination, port: virtualPort } = packet;
  const entering = { packet, destination, port: virtualPort, mark: 0, stage: "later" } as const;
  const virtual = isByIpvs ? { virtual: { address: destination, port: virtualPort } } : {};
  const translated = { ...entering, ...virtual, destination: address, port };
  const isForNode = isLocal(address, state);
  const isDelivered = isForNode && !isFromNode;
  const source = (isMasqueraded ? leavingAddress(address, state) : undefined) ?? packet.source;
  const stages: readonly Stage[] = [
    [firstPlaces(isFromNode ? "OUTPUT" : "PREROUTING"), entering],
    ...(isByIpvs
      ? ([
          [isFromNode ? [] : filterPlaces(["INPUT"], true), entering],
          [isDelivered ? deliveryPlaces : outputPlaces, translated],
        ] as const)
      : ([[filterPlaces(filterHooks(packet, isForNode)), translated]] as const)),
    ...(isDelivered
      ? []
      : ([
          [lastPlaces, translated],
          [linkPlaces, { ...translated, packet: { ...packet, source } }],
        ] as const)),
  ];
  return passStages(stages, state);
}

/**
 * Follows the ICMP error "port unreachable" to the host whose packet this node refused. Connection tracking does not
 * know that packet yet, so the error has the state INVALID.
 */
export function followRefusal(
  packet: Packet,
  state: NodeState,
): Pick<Traversal, "verdict" | "steps"> {
  const { source: destination, destination: source } = packet;
  const way = { source, destination, port: 0, inLink: "", isFromNode: true, isBridged: false };
  const error: PacketOnPath = {
    packet: { ...packet, ...way, protocol: "ICMP" },
    ...{ destination, port: 0, mark: 0, stage: "refusal" },
  };
  return passStages(
    [outputPlaces, lastPlaces, linkPlaces].map((places): Stage => [places, error]),
    state,
  );
}

/** Follows a packet through several stages. Each stage begins with the mark that the previous stage set. */
function passStages(
  stages: readonly Stage[],
  state: NodeState,
): Pick<Traversal, "verdict" | "steps"> {
  const steps: Step[] = [];
  let mark = 0;
  for (const [places, onPath] of stages) {
    const passed = passTables(places, { ...onPath, mark }, state);
    steps.push(...passed.steps);
    ({ mark } = passed);
    if (passed.verdict !== "pass") return { verdict: passed.verdict, steps };
  }
  return { verdict: "pass", steps };
}
