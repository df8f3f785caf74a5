import { familyOf, hostPrefixLength, type IpAddress, parseCidr } from "../../base/ip.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import type { ListedSet } from "./node-state.ts";
import type { PacketOnPath } from "./packet.ts";

export type Direction = "src" | "dst";

/**
 * Finds the set entry that matches a packet, as xt_set does. If several networks match, the longest prefix wins.
 * Undefined if none matches. Pure.
 */
export function findEntry(
  { type, entries }: ListedSet,
  onPath: PacketOnPath,
  directions: readonly Direction[],
): SetEntry | undefined {
  const isBitmap = type === "bitmap:port";
  const protocol = onPath.packet.protocol;
  if (isBitmap && !["TCP", "UDP"].includes(protocol)) return undefined;
  const parts = type.slice(type.indexOf(":") + 1).split(",");
  // The kernel requires a direction for each part.
  if (directions.length < parts.length) return undefined;
  let texts: readonly string[] = [""];
  for (const [index, part] of parts.entries()) {
    const direction = directions[index] ?? "dst";
    const port = `${isBitmap ? "" : `${protocol.toLowerCase()}:`}${portAt(onPath, direction)}`;
    const alternatives =
      part === "port" ? [port] : addressTexts(part, addressAt(onPath, direction));
    texts = texts.flatMap((text) =>
      alternatives.map((one) => (index === 0 ? one : `${text},${one}`)),
    );
  }
  const has = (text: string): boolean => entries.has(text as SetEntry);
  const found = texts.find((text) => has(text) || has(`${text} nomatch`));
  return found !== undefined && has(found) ? (found as SetEntry) : undefined;
}

/** The address itself or, if the part is a network, all networks that contain the address. */
function addressTexts(part: string, address: IpAddress): readonly string[] {
  if (part !== "net") return [address];
  const longest = hostPrefixLength(familyOf(address));
  const shorter = Array.from({ length: longest }, (_, index) => {
    const length = longest - 1 - index;
    return `${parseCidr(`${address}/${length}`)?.address}/${length}`;
  });
  return [address, ...shorter];
}

function addressAt({ packet, destination }: PacketOnPath, direction: Direction): IpAddress {
  return direction === "src" ? packet.source : destination;
}

/** The client's port is unknown, so 0 stands for it. The source port of a reply is the endpoint's. */
function portAt({ port, endpointPort = 0 }: PacketOnPath, direction: Direction): number {
  return direction === "dst" ? port : endpointPort;
}
