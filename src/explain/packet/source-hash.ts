/** Predicts the `sh` scheduler's choice, as in net/netfilter/ipvs/ip_vs_sh.c. Pure. */
import { type IpAddress, ipAddressToBytes } from "../../base/ip.ts";
import type { RealServer } from "../../state/real-server.ts";
import { virtualServerFlags } from "../../state/virtual-server.ts";
import type { ListedServer } from "./node-state.ts";

/** IP_VS_SH_TAB_BITS. */
const tableBits = 8;
const tableSize = 1 << tableBits;

/**
 * The real server for a client. Undefined for other schedulers, or if the unknown source port is hashed too. Real
 * servers must be in the kernel's order. If the returned real server has weight 0, the client is rejected.
 */
export function hashedServer(
  { virtualServer, realServers }: ListedServer,
  source: IpAddress,
): RealServer | undefined {
  const { scheduler, flags } = virtualServer;
  if (scheduler !== "sh" || (flags & virtualServerFlags.schedulerPort) !== 0) return undefined;
  const table = realServers.flatMap((one) =>
    Array.from({ length: Math.max(one.weight, 1) }, () => one),
  );
  const at = (offset: number) => table[((hash(source) + offset) % tableSize) % table.length];
  const first = at(0);
  if ((flags & virtualServerFlags.schedulerFallback) === 0) return first;
  const offsets = Array.from({ length: tableSize }, (_, offset) => offset + hash(source));
  return first !== undefined && first.weight > 0
    ? first
    : (offsets.map(at).find((one) => (one?.weight ?? 0) > 0) ?? first);
}

/** The kernel's hash_32 of the address, whose words are first combined. */
function hash(source: IpAddress): number {
  const bytes = ipAddressToBytes(source);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let folded = 0;
  for (let at = 0; at < bytes.length; at += 4) folded ^= view.getUint32(at);
  return Math.imul(folded, 0x61c88647) >>> (32 - tableBits);
}
