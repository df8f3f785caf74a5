import {
  cidrContains,
  familyOf,
  hostPrefixLength,
  type IpAddress,
  parseCidr,
} from "../../base/ip.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import type { ListedSet } from "./node-state.ts";
import type { PacketOnPath } from "./packet.ts";

export type Direction = "src" | "dst";

/** Finds the set entry that matches a packet, as xt_set does. Undefined if none matches. Pure. */
export function findEntry(
  { type, entries }: ListedSet,
  onPath: PacketOnPath,
  directions: readonly Direction[],
): SetEntry | undefined {
  const has = (text: string): SetEntry | undefined =>
    entries.has(text as SetEntry) ? (text as SetEntry) : undefined;
  const [first = "dst", second = "dst", third = "src"] = directions;
  const address = addressAt(onPath, first);
  switch (type) {
    case "hash:ip":
      return has(address);
    case "bitmap:port":
      // bitmap:port supports only these two protocols.
      if (!["TCP", "UDP"].includes(onPath.packet.protocol)) return undefined;
      return has(String(portAt(onPath, first)));
    case "hash:ip,port":
      return has(portText(address, onPath, second));
    case "hash:ip,port,ip":
      return has(`${portText(address, onPath, second)},${addressAt(onPath, third)}`);
    case "hash:ip,port,net":
      return netEntry(entries, portText(address, onPath, second), addressAt(onPath, third));
    default:
      return undefined;
  }
}

function portText(address: IpAddress, onPath: PacketOnPath, direction: Direction): string {
  return `${address},${onPath.packet.protocol.toLowerCase()}:${portAt(onPath, direction)}`;
}

/** Returns the entry with the longest matching prefix, as the kernel does. */
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

function addressAt({ packet, destination }: PacketOnPath, direction: Direction): IpAddress {
  return direction === "src" ? packet.source : destination;
}

/** Returns 0 for the source port, because none of our rules match it. */
function portAt({ port }: PacketOnPath, direction: Direction): number {
  return direction === "dst" ? port : 0;
}
