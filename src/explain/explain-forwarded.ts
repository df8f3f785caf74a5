/** Explains node ports on a loopback address, where kube-ipvs listens and forwards to the node's own address. Pure. */

import type { Destination } from "../answer/answers.ts";
import type { Explanation, PacketExplanation, Verdict } from "../answer/explanation.ts";
import { hostPort } from "../base/ip.ts";
import { virtualServerKey } from "../state/virtual-server.ts";
import { type DestinationInput, explainDestination } from "./explain-destination.ts";
import { destinationText } from "./verdict-text.ts";

/** Explains packets to a destination that kube-ipvs forwards. `to` is the destination to which kube-ipvs connects. */
export function explainForwarded(input: DestinationInput, to: Destination): Explanation {
  const { destination, observed } = input;
  const before = explainDestination({ ...input, from: "node" });
  const target = explainDestination({ ...input, destination: to, from: "node" });
  const isReached = before.verdict === "node";
  const isListening = observed.network.listeners.has(virtualServerKey(destination));
  const planned = forwardedText(target.packets[0]?.planned ?? target.summary, destination, to);
  const summary = isListening
    ? forwardedText(target.summary, destination, to)
    : `Packets from this node to ${destinationText(destination)} are refused: kube-ipvs does not listen there`;
  const taken = takenPacket(before, isReached ? summary : before.summary, planned);
  const listener = `kube-ipvs listener at ${destinationText(destination)}`;
  return {
    ...target,
    ...destination,
    summary: isReached ? summary : before.summary,
    verdict: verdictOf(before, target, isListening, destination),
    forwardedTo: hostPort(to.address, to.port),
    packets: isReached && isListening ? [taken, ...target.packets] : [taken],
    differences: isListening
      ? target.differences
      : [...target.differences, { kind: "missing", subject: listener }],
  };
}

function takenPacket(
  { packets: [packet] }: Explanation,
  summary: string,
  planned: string,
): PacketExplanation {
  if (packet === undefined) throw new Error("Packets from this node are always explained");
  return { ...packet, summary, ...(planned === summary ? {} : { planned }) };
}

/** Combines both verdicts. If no endpoint is available, TCP clients see a reset, and UDP clients get no reply. */
function verdictOf(
  before: Explanation,
  target: Explanation,
  isListening: boolean,
  { protocol }: Destination,
): Verdict {
  if (before.verdict !== "node") return before.verdict;
  if (!isListening) return "refused";
  if (target.verdict === "balanced") return "balanced";
  return protocol === "TCP" ? "refused" : "dropped";
}

/** Converts the summary about `to` to one about the packets that kube-ipvs forwards there. */
function forwardedText(summary: string, destination: Destination, to: Destination): string {
  const fate = summary.slice(`Packets from this node to ${destinationText(to)} `.length);
  const packets = `Packets from this node to ${destinationText(destination)} are`;
  if (fate.startsWith("are balanced")) {
    return `${packets} forwarded by kube-ipvs to ${destinationText(to)}, where they ${fate}`;
  }
  const end = destination.protocol === "TCP" ? "accepted by kube-ipvs and reset" : "lost";
  return `${packets} ${end}: at ${destinationText(to)} they ${fate}`;
}
