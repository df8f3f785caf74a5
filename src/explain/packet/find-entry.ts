import {
  cidrContains,
  familyOf,
  hostPrefixLength,
  type IpAddress,
  parseCidr,
} from "../../base/ip.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import type { ListedSet } from "./node-state.ts";
import type { PacketInFlight } from "./packet.ts";

export type Direction = "src" | "dst";

/** The entry of a set that a packet matches, as xt_set looks for it; undefined: none. Pure. */
export function findEntry(
  { type, entries }: ListedSet,
  inFlight: PacketInFlight,
  directions: readonly Direction[],
): SetEntry | undefined {
  const has = (text: string): SetEntry | undefined =>
    entries.has(text as SetEntry) ? (text as SetEntry) : undefined;
  const [first = "dst", second = "dst", third = "src"] = directions;
  const address = addressAt(inFlight, first);
  switch (type) {
    case "hash:ip":
      return has(address);
    case "bitmap:port":
      // It reads these two protocols only.
      if (!["TCP", "UDP"].includes(inFlight.packet.protocol)) return undefined;
      return has(String(portAt(inFlight, first)));
    case "hash:ip,port":
      return has(portText(address, inFlight, second));
    case "hash:ip,port,ip":
      return has(`${portText(address, inFlight, second)},${addressAt(inFlight, third)}`);
    case "hash:ip,port,net":
      return netEntry(entries, portText(address, inFlight, second), addressAt(inFlight, third));
    default:
      return undefined;
  }
}

function portText(address: IpAddress, inFlight: PacketInFlight, direction: Direction): string {
  return `${address},${inFlight.packet.protocol.toLowerCase()}:${portAt(inFlight, direction)}`;
}

/** The narrowest network, as the kernel has it. */
function netEntry(
  entries: ReadonlySet<SetEntry>,
  prefix: string,
  address: IpAddress,
): SetEntry | undefined {
  let best: { readonly entry: SetEntry; readonly length: number } | undefined;
  for (const entry of entries) {
    if (!entry.startsWith(`${prefix},`)) continue;
    const net = entry.slice(prefix.length + 1);
    const length = hostPrefixLength(familyOf(address));
    const cidr = parseCidr(net.includes("/") ? net : `${net}/${length}`);
    if (cidr === undefined || !cidrContains(cidr, address)) continue;
    if (best === undefined || cidr.prefixLength > best.length) {
      best = { entry, length: cidr.prefixLength };
    }
  }
  return best?.entry;
}

function addressAt({ packet, destination }: PacketInFlight, direction: Direction): IpAddress {
  return direction === "src" ? packet.source : destination;
}

/** No rule of ours asks for the source port, which a client does not choose. */
function portAt({ port }: PacketInFlight, direction: Direction): number {
  return direction === "dst" ? port : 0;
}
