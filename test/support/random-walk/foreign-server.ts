/** Virtual servers of other software, at places that Services claim now and then. Pure. */
import type { KernelState } from "../../golden/kernel-state.ts";
import { lines, placeOf } from "./damage.ts";

export interface ForeignServer {
  /** `-t 198.51.100.2:80` */
  readonly place: string;
  readonly commands: readonly string[];
  /** By which our sets would name it: `198.51.100.2,tcp:80`; by port alone for a node port. */
  readonly entry: string;
}

export const foreignServers: readonly ForeignServer[] = [
  foreign("-t", "198.51.100.2", 80),
  foreign("-t", "203.0.113.1", 443),
  foreign("-t", "10.96.0.13", 80),
  foreign("-u", "203.0.113.2", 53),
  foreign("-t", "2001:db8::1", 80),
  nodePort(30_083),
];

function foreign(option: "-t" | "-u", address: string, port: number): ForeignServer {
  const isIpv6 = address.includes(":");
  const place = `${option} ${isIpv6 ? `[${address}]` : address}:${port}`;
  // The kernel gives a real server behind a gateway the port of its virtual server.
  const real = isIpv6 ? `[fd00:250::1]:${port}` : `10.250.1.1:${port}`;
  return {
    place,
    commands: [`ipvsadm -A ${place} -s wlc`, `ipvsadm -a ${place} -r ${real} -g -w 5`],
    entry: `${address},${option === "-t" ? "tcp" : "udp"}:${port}`,
  };
}

/** On one of the node's addresses, where a Service may want a node port. */
function nodePort(port: number): ForeignServer {
  return { ...foreign("-t", "192.168.10.11", port), entry: `${port}` };
}

/** Says whether it exists already, or one of our sets names it: then it would be taken for ours. */
export function isClaimed({ place, entry }: ForeignServer, state: KernelState): boolean {
  return (
    lines(state.ipvs).some((line) => placeOf(line) === place) ||
    lines(state.ipset).some((line) => line.endsWith(` ${entry}`) || line.includes(` ${entry},`))
  );
}
