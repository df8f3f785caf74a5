/** Evaluates other software's matches, in the form that `iptables-save` prints. kube-ipvs never writes them. Pure. */

import type { NftHook as Hook } from "../../state/nft-rule.ts";
import { type Direction, findEntry } from "./find-entry.ts";
import type { PacketAtRule } from "./match-rule.ts";
import { isLink } from "./match-rule.ts";
import { isHere, type NodeState } from "./node-state.ts";
import { lowestClientPort, type PacketOnPath } from "./packet.ts";

/** Whether the packet matches all `texts`. Undefined if that is unknown. False if one of them certainly does not match. */
export function matchOthers(
  texts: readonly string[],
  at: PacketAtRule & { readonly hook: Hook },
  state: NodeState,
): boolean | undefined {
  let isMatch: boolean | undefined = true;
  for (const text of texts) {
    const found = matchOther(text, at, state);
    if (found === false) return false;
    isMatch &&= found;
  }
  return isMatch;
}

function matchOther(
  text: string,
  at: PacketAtRule & { readonly hook: Hook },
  state: NodeState,
): boolean | undefined {
  const [, not, option = "", name = "", rest = ""] =
    /^(! +)?-(o|p|m) +(\S+) *(.*)$/.exec(text) ?? [];
  if (option === "o") return negated(not, isLink(name, outLinkOf(at, state)));
  if (option === "p") return negated(not, isProtocol(name, at));
  const words = rest.split(/ +/);
  switch (name) {
    case "tcp":
    case "udp":
      return isProtocol(name, at) && matchWords(words, at);
    case "multiport":
      return matchWords(words, at);
    case "set":
      return isInSet(rest, at, state);
    case "icmp":
    case "icmp6":
      return isProtocol(name, at) ? undefined : false;
    default:
      return undefined;
  }
}

function negated(not: string | undefined, isMatch: boolean | undefined): boolean | undefined {
  return isMatch === undefined ? undefined : isMatch !== (not !== undefined);
}

function isProtocol(name: string, { onPath: { packet } }: PacketAtRule): boolean {
  return (
    name === "all" || packet.protocol === name.toUpperCase().replace(/^(IPV6-)?ICMP(V?6)?$/, "ICMP")
  );
}

type Ports = readonly [first: number, last: number];
const clientPorts: Ports = [lowestClientPort, 65_535];

/** The client's exact port is unknown, but the source port of a reply is the endpoint's. */
function matchWords(words: readonly string[], { onPath }: PacketAtRule): boolean | undefined {
  const { port, stage, endpointPort = 0 } = onPath;
  const [source, destination]: readonly [Ports, Ports] =
    stage === "answer" ? [[endpointPort, endpointPort], clientPorts] : [clientPorts, [port, port]];
  const matchWord = (word: string, value: string, other: string): boolean | undefined => {
    switch (word) {
      case "--sport":
      case "--sports":
        return isPort(value, source);
      case "--dport":
      case "--dports":
        return isPort(value, destination);
      case "--tcp-flags":
        return hasFlags(value, other, stage);
      default:
        return undefined;
    }
  };
  let isMatch: boolean | undefined = true;
  for (let index = 0; index < words.length; ) {
    const not = words[index] === "!" ? "!" : undefined;
    if (not !== undefined) index += 1;
    const [word = "", value = "", other = ""] = words.slice(index);
    index += word === "--tcp-flags" ? 3 : 2;
    const found = negated(not, matchWord(word, value, other));
    if (found === false) return false;
    isMatch &&= found;
  }
  return isMatch;
}

/** Whether the set contains the packet. Undefined if the set was not read, or if it has ports and the port is unknown. */
function isInSet(text: string, { onPath }: PacketAtRule, { sets }: NodeState): boolean | undefined {
  const [, not, name = "", ends = ""] =
    /^(! )?--match-set (\S+) ((?:src|dst)(?:,(?:src|dst))*)$/.exec(text) ?? [];
  const set = sets.get(name);
  if (set === undefined) return undefined;
  const directions = ends.split(",") as Direction[];
  const direction = directions[set.type.split(/[:,]/).indexOf("port") - 1];
  const known = onPath.stage === "answer" ? "src" : "dst";
  if (direction !== undefined) {
    if (onPath.packet.protocol === "ICMP" && set.type !== "bitmap:port") return undefined;
    const hasClientPort = [...set.entries].some(
      (entry) =>
        Number(/(?<=^|(?:tcp|udp|sctp):)\d+(?=[ ,]|$)/.exec(entry)?.[0]) >= lowestClientPort,
    );
    if (direction !== known) return hasClientPort ? undefined : negated(not, false);
  }
  return negated(not, findEntry(set, onPath, directions) !== undefined);
}

/** Whether a list such as `80,8000:8080` contains all ports in a range. Undefined if it contains only some. */
function isPort(list: string, [lowest, highest]: Ports): boolean | undefined {
  const ranges = list.split(",").map((range) => range.split(":").map(Number));
  if (ranges.some(([first = 0, last = first]) => first <= lowest && highest <= last)) return true;
  const isOverlapping = ranges.some(
    ([first = 0, last = first]) => first <= highest && lowest <= last,
  );
  return isOverlapping ? undefined : false;
}

/** A connection begins with a SYN, which is answered with SYN and ACK. Later packets have ACK. */
function hasFlags(mask: string, set: string, stage: PacketOnPath["stage"]): boolean {
  const masked = mask.split(",");
  const present = [...(stage === "later" ? [] : ["SYN"]), ...(stage === undefined ? [] : ["ACK"])];
  const seen = present.filter((flag) => masked.includes(flag) || mask === "ALL");
  const wanted = set === "NONE" ? [] : set.split(",");
  return seen.length === wanted.length && seen.every((flag) => wanted.includes(flag));
}

/** The packet's output link. Empty if packets have no output link at this hook. */
function outLinkOf(
  { hook, onPath: { destination } }: PacketAtRule & { readonly hook: Hook },
  state: NodeState,
): string {
  if (hook === "PREROUTING" || hook === "INPUT") return "";
  return isHere(destination, state) ? "lo" : (state.network.routes.get(destination)?.link ?? "");
}
