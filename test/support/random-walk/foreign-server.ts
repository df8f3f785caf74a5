/** Third-party virtual servers, at addresses that Services sometimes claim. Pure. */
import type { KernelState } from "../../golden/kernel-state.ts";
import { lines, placeOf } from "./damage.ts";

export interface ForeignServer {
  /** `-t 198.51.100.2:80` */
  readonly place: string;
  readonly commands: readonly string[];
  /**
   * The entry that would name the virtual server in kube-ipvs's sets: `198.51.100.2,tcp:80`, or only the port for a
   * node port.
   */
  readonly entry: string;
}

export const foreignServers: readonly ForeignServer[] = [
  foreign("-t", "198.51.100.2", 80),
  foreign("-t", "203.0.113.1", 443),
  foreign("-t", "10.96.0.13", 80),
  foreign("-u", "203.0.113.2", 53),
  foreign("-t", "2001:db8::1", 80),
  nodePort(30_083),
  firewallMark(7),
];

function foreign(option: "-t" | "-u", address: string, port: number): ForeignServer {
  const isIpv6 = address.includes(":");
  const place = `${option} ${isIpv6 ? `[${address}]` : address}:${port}`;
  // With gatewaying, the kernel gives a real server the port of its virtual server.
  const real = isIpv6 ? `[fd00:250::1]:${port}` : `10.250.1.1:${port}`;
  return {
    place,
    commands: [`ipvsadm -A ${place} -s wlc`, `ipvsadm -a ${place} -r ${real} -g -w 5`],
    entry: `${address},${option === "-t" ? "tcp" : "udp"}:${port}`,
  };
}

/** A mark that is not one of kube-ipvs's. */
function firewallMark(mark: number): ForeignServer {
  const place = `-f ${mark}`;
  const commands = [`ipvsadm -A ${place} -s wlc`, `ipvsadm -a ${place} -r 10.250.1.1:0 -g -w 5`];
  return { place, commands, entry: "no set contains marks" };
}

/** A virtual server on a node address, where a Service may request a node port. */
function nodePort(port: number): ForeignServer {
  return { ...foreign("-t", "192.168.10.11", port), entry: `${port}` };
}

/** Whether the virtual server already exists, or would be treated as kube-ipvs's because one of its sets names it. */
export function isClaimed({ place, entry }: ForeignServer, state: KernelState): boolean {
  return (
    lines(state.ipvs).some((line) => placeOf(line) === place) ||
    lines(state.ipset).some((line) => line.endsWith(` ${entry}`) || line.includes(` ${entry},`))
  );
}
