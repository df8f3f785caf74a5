/** Finds a node's existing listeners from its rules and sockets, without asking the process that opened them. Pure. */
import { familyOf, type IpAddress, type IpFamily } from "../base/ip.ts";
import type { Rule } from "../state/rule.ts";
import { type ListenRule, listenAddressOf } from "./listen-addresses.ts";
import type { ListenAddress, LocalPorts } from "./listener.ts";
import { nodePortChains, portalChains } from "./portal-rules.ts";
import type { ServiceListener } from "./service-listeners.ts";

/** The rules and sockets of a node. */
export interface SeenNode {
  /** The rules in a nat chain that could be parsed. */
  rulesOf(family: IpFamily, chain: string): readonly Rule[];
  readonly sockets: readonly {
    readonly protocol: string;
    readonly address: IpAddress;
    readonly port: number;
  }[];
}

/** A wanted listener, with the address to listen on. */
export interface SoughtListener {
  readonly wanted: ServiceListener;
  readonly address: ListenAddress;
  /** Undefined if no process listens on the address. */
  readonly localPorts?: LocalPorts;
}

/** Finds the wanted listeners. Skips those whose family is not served. */
export function findListeners(
  wanted: readonly ServiceListener[],
  rule: ListenRule,
  seen: SeenNode,
): readonly SoughtListener[] {
  return wanted.flatMap((one): readonly SoughtListener[] => {
    const address = listenAddressOf(one, rule);
    if (address === undefined) return [];
    const localPorts = rule.isRedirected
      ? redirectedPorts(one, seen)
      : portsAt(one, address.host, address.port, seen);
    return [{ wanted: one, address, ...(localPorts === undefined ? {} : { localPorts }) }];
  });
}

/** The two ports to which a service port's rules redirect packets. Undefined unless sockets listen on both. */
function redirectedPorts(wanted: ServiceListener, seen: SeenNode): LocalPorts | undefined {
  const [port, portOnLoopback] = (["fromElsewhere", "fromNode"] as const).map((side) =>
    [portalChains[side], nodePortChains[side]]
      .flatMap((chain) => seen.rulesOf(wanted.family, chain))
      .filter((rule) => isOf(wanted, rule))
      .flatMap(({ target }) => (target.kind === "redirect" ? [target.port] : []))
      .find((found) => isListened(wanted, found, seen)),
  );
  return port === undefined || portOnLoopback === undefined ? undefined : { port, portOnLoopback };
}

function isOf({ portName, protocol }: ServiceListener, { matches }: Rule): boolean {
  return matches.every((match) => {
    if (match.kind === "comment") return match.text === portName;
    return match.kind !== "protocol" || match.protocol === protocol.toLowerCase();
  });
}

function isListened(
  { family, protocol }: ServiceListener,
  port: number,
  { sockets }: SeenNode,
): boolean {
  return sockets.some(
    (socket) =>
      socket.protocol === protocol && socket.port === port && familyOf(socket.address) === family,
  );
}

function portsAt(
  { protocol }: ServiceListener,
  host: string,
  port: number,
  { sockets }: SeenNode,
): LocalPorts | undefined {
  const isThere = sockets.some(
    (socket) => socket.protocol === protocol && socket.address === host && socket.port === port,
  );
  return isThere ? { port, portOnLoopback: port } : undefined;
}
