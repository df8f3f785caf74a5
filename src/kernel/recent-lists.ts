/** Lists of clients that iptables' match `recent` keeps: /proc/net/xt_recent. */
import { readFileSync } from "node:fs";
import { type IpAddress, parseIpAddress } from "../base/ip.ts";

/** Empty: there is no such list. Throws where it cannot be read. */
export function listRecentClients(name: string): readonly IpAddress[] {
  let text: string;
  try {
    text = readFileSync(`/proc/net/xt_recent/${name}`, "latin1");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
  return parseRecentClients(text);
}

/** `src=192.168.10.1 ttl: 64 last_seen: 4294915327 …`; addresses of IPv6 have all their digits. */
export function parseRecentClients(text: string): readonly IpAddress[] {
  return [...text.matchAll(/^src=(\S+) /gm)].flatMap(
    ([, address = ""]) => parseIpAddress(address) ?? [],
  );
}
