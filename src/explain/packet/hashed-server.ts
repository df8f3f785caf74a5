/**
 * Predicts the choice of the schedulers that hash addresses, as in net/netfilter/ipvs/ip_vs_sh.c, ip_vs_dh.c and
 * ip_vs_mh.c. Assumes the kernel's default table sizes. Pure.
 */
import { type IpAddress, ipAddressToBytes } from "../../base/ip.ts";
import type { RealServer } from "../../state/real-server.ts";
import { virtualServerFlags } from "../../state/virtual-server.ts";
import { isFull } from "./connection-limit.ts";
import type { ListedServer } from "./node-state.ts";
import type { Packet } from "./packet.ts";

/** A scheduler's table: returns the real server for the packet's hash plus an offset. */
type Lookup = (offset: number) => RealServer | undefined;

/**
 * The real server that the scheduler chooses for a client. Real servers must be in the kernel's order. Undefined for
 * other schedulers, if the unknown source port is hashed too, or if the choice depends on values that the kernel does
 * not show. The kernel rejects the client if the returned real server does not accept connections.
 */
export function hashedServer(
  { virtualServer, realServers }: ListedServer,
  { source, destination }: Pick<Packet, "source" | "destination">,
): RealServer | undefined {
  const { scheduler, flags } = virtualServer;
  if (scheduler === "dh")
    return realServers[(hash32(destination) % tableSize) % realServers.length];
  if ((flags & virtualServerFlags.schedulerPort) !== 0) return undefined;
  const lookup =
    scheduler === "sh"
      ? sourceLookup(realServers, source)
      : scheduler === "mh"
        ? maglevLookup(realServers, source)
        : undefined;
  const first = lookup?.(0);
  if (lookup === undefined || first === undefined) return undefined;
  if ((flags & virtualServerFlags.schedulerFallback) === 0) return first;
  const start = scheduler === "sh" ? hash32(source) : maglevHash(source, 0);
  const size = scheduler === "sh" ? tableSize : maglevSize;
  for (let next: RealServer | undefined = first, offset = 0; next !== undefined; offset += 1) {
    const full = isFull(next);
    if (full === "maybe") return undefined;
    if (next.weight > 0 && !full) return next;
    if (offset === size) return first;
    next = lookup((offset + start) % size);
  }
  return first;
}

/** IP_VS_SH_TAB_SIZE and IP_VS_DH_TAB_SIZE. */
const tableBits = 8;
const tableSize = 1 << tableBits;

function sourceLookup(realServers: readonly RealServer[], source: IpAddress): Lookup {
  const table = realServers.flatMap((one) =>
    Array.from({ length: Math.min(Math.max(one.weight, 1), tableSize) }, () => one),
  );
  return (offset) => table[((hash32(source) + offset) % tableSize) % table.length];
}

/** The kernel's hash_32. */
function hash32(address: IpAddress): number {
  return Math.imul(folded(address), 0x61c88647) >>> (32 - tableBits);
}

/** Combines the words of an address. */
function folded(address: IpAddress): number {
  const bytes = ipAddressToBytes(address);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let all = 0;
  for (let at = 0; at < bytes.length; at += 4) all ^= view.getUint32(at);
  return all >>> 0;
}

/** IP_VS_MH_TAB_SIZE, and IP_VS_MH_TAB_BITS, which limits a real server's turns. */
const maglevSize = 4_093;
const maglevBits = 6;
const maglevKeys = [2_654_435_761n, 2_654_446_892n] as const;

/** The table of `mh`. Undefined if a real server has weight 0, because the table then depends on its earlier weight. */
function maglevLookup(realServers: readonly RealServer[], source: IpAddress): Lookup | undefined {
  const weights = realServers.map(({ weight }) => weight);
  if (weights.length === 0 || weights.includes(0)) return undefined;
  const divisor = weights.reduce(greatestCommonDivisor);
  const shift = Math.max(0, 32 - Math.clz32(Math.max(...weights) / divisor) - maglevBits);
  const places = realServers.map(({ address, port, weight }) => ({
    next: sipHash(folded(address) + port, maglevKeys[0]) % maglevSize,
    skip: (sipHash(folded(address) + port, maglevKeys[1]) % (maglevSize - 1)) + 1,
    turns: Math.max(1, (weight / divisor) >> shift),
  }));
  const table = new Array<RealServer | undefined>(maglevSize);
  for (let filled = 0; filled < maglevSize; ) {
    for (const [index, place] of places.entries()) {
      for (let turn = 0; turn < place.turns && filled < maglevSize; turn += 1) {
        while (table[place.next] !== undefined) place.next = (place.next + place.skip) % maglevSize;
        table[place.next] = realServers[index];
        filled += 1;
      }
    }
  }
  return (offset) => table[maglevHash(source, offset)];
}

function maglevHash(source: IpAddress, offset: number): number {
  return sipHash(folded(source) + offset, maglevKeys[0]) % maglevSize;
}

function greatestCommonDivisor(one: number, other: number): number {
  return other === 0 ? one : greatestCommonDivisor(other, one % other);
}

/** The kernel's hsiphash on 64-bit machines: SipHash-1-3 of one 32-bit word. Both halves of the key are the same. */
function sipHash(word: number, key: bigint): number {
  const last = (4n << 56n) | BigInt(word >>> 0);
  let [a, b, c, d] = [
    0x736f6d6570736575n ^ key,
    0x646f72616e646f6dn ^ key,
    0x6c7967656e657261n ^ key,
    0x7465646279746573n ^ key ^ last,
  ];
  for (let round = 0; round < 4; round += 1) {
    a = wrapped(a + b);
    b = rotated(b, 13n) ^ a;
    a = rotated(a, 32n);
    c = wrapped(c + d);
    d = rotated(d, 16n) ^ c;
    a = wrapped(a + d);
    d = rotated(d, 21n) ^ a;
    c = wrapped(c + b);
    b = rotated(b, 17n) ^ c;
    c = rotated(c, 32n);
    if (round === 0) {
      a ^= last;
      c ^= 0xffn;
    }
  }
  return Number(BigInt.asUintN(32, a ^ b ^ c ^ d));
}

function wrapped(value: bigint): bigint {
  return BigInt.asUintN(64, value);
}

function rotated(value: bigint, bits: bigint): bigint {
  return wrapped(value << bits) | (value >> (64n - bits));
}
