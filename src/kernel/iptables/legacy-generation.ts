/** Identifies the legacy tables' state by a hash of their entries without counters. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { readLegacyTable } from "../../../native-shim/legacy-table.ts";
import type { IpFamily } from "../../base/ip.ts";
import { isLittleEndianHost } from "../../netlink/byte-reader.ts";
import type { TableName } from "../../state/rule.ts";

/**
 * Maximum size of a table, which is about 10,000 rules. Reading and hashing 6,000 rules blocks our thread for 5 ms
 * (measured). Larger tables are read with iptables-save, in a separate process.
 */
const mostBytes = 2 * 1024 * 1024;

/**
 * Offsets in struct ipt_entry and struct ip6t_entry, linux/netfilter_ipv4/ip_tables.h and
 * linux/netfilter_ipv6/ip6_tables.h: the offset of the next entry (u16) and the two counters (u64 each).
 */
const layouts: Readonly<Record<IpFamily, EntryLayout>> = {
  IPv4: { number: 4, tables: "ip_tables_names", nextOffset: 90, counters: 96, headBytes: 112 },
  IPv6: { number: 6, tables: "ip6_tables_names", nextOffset: 142, counters: 152, headBytes: 168 },
};

const tableNames: readonly TableName[] = ["nat", "filter", "mangle"];

interface EntryLayout {
  readonly number: 4 | 6;
  /** File in /proc/net that lists the existing tables. */
  readonly tables: string;
  readonly nextOffset: number;
  readonly counters: number;
  /** Size of the part of an entry before its matches and target, in bytes. */
  readonly headBytes: number;
}

/** Throws if a table cannot be read, changes while being read, or is too large. */
export function readLegacyGeneration(family: IpFamily): number {
  const layout = layouts[family];
  // Requesting a missing table would create it.
  const present = readFileSync(`/proc/net/${layout.tables}`, "latin1").split("\n");
  const tables = tableNames.filter((name) => present.includes(name));
  return hashTables(
    family,
    tables.map((table) => readLegacyTable(layout.number, table, mostBytes)),
  );
}

/**
 * Returns 48 bits of a hash over all tables' entries. Zeroes the counters in `tables`. Throws RangeError if an entry is
 * truncated.
 */
export function hashTables(family: IpFamily, tables: readonly Uint8Array[]): number {
  // On processors without SHA-256 instructions, this is the fastest hash. It takes 1.9 ms for 2 MB.
  const hash = createHash("sha512-256").update(String(tables.map(({ length }) => length)));
  for (const table of tables) {
    clearCounters(new DataView(table.buffer, table.byteOffset, table.length), layouts[family]);
    hash.update(table);
  }
  return hash.digest().readUIntBE(0, 6);
}

function clearCounters(entries: DataView, layout: EntryLayout): void {
  for (let at = 0; at < entries.byteLength; ) {
    entries.setBigUint64(at + layout.counters, 0n);
    entries.setBigUint64(at + layout.counters + 8, 0n);
    const length = entries.getUint16(at + layout.nextOffset, isLittleEndianHost);
    if (length < layout.headBytes) throw new RangeError(`Entry of ${length} bytes at ${at}`);
    at += length;
  }
}
