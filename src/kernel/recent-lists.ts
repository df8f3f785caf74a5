/** Client lists of the iptables `recent` match: /proc/net/xt_recent. */
import { readFileSync } from "node:fs";
import { type IpAddress, parseIpAddress } from "../base/ip.ts";

/** Empty if the list does not exist. Throws if it cannot be read. */
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

/** Parses `src=192.168.10.1 ttl: 64 last_seen: 4294915327 …`. IPv6 addresses are printed in full. */
export function parseRecentClients(text: string): readonly IpAddress[] {
  return [...text.matchAll(/^src=(\S+) /gm)].flatMap(
    ([, address = ""]) => parseIpAddress(address) ?? [],
  );
}
