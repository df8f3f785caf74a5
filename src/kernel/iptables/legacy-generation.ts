/** A number for each state of the legacy tables: a hash of their entries, counters left out. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { readLegacyTable } from "../../../native-shim/legacy-table.ts";
import type { IpFamily } from "../../base/ip.ts";
import { isLittleEndianHost } from "../../netlink/byte-reader.ts";
import type { TableName } from "../../state/rule.ts";

/** Some 10,000 rules; 6,000 take 5 ms to read and hash (measured), on our thread. More are read by the program, beside us. */
const mostBytes = 2 * 1024 * 1024;

/**
 * struct ipt_entry and struct ip6t_entry, linux/netfilter_ipv4/ip_tables.h and linux/netfilter_ipv6/ip6_tables.h:
 * where the length of an entry stands (u16), and its two counters (u64 each).
 */
const layouts: Readonly<Record<IpFamily, EntryLayout>> = {
  IPv4: { number: 4, tables: "ip_tables_names", nextOffset: 90, counters: 96, headBytes: 112 },
  IPv6: { number: 6, tables: "ip6_tables_names", nextOffset: 142, counters: 152, headBytes: 168 },
};

const tableNames: readonly TableName[] = ["nat", "filter"];

interface EntryLayout {
  readonly number: 4 | 6;
  /** The list of tables, under /proc/net. */
  readonly tables: string;
  readonly nextOffset: number;
  readonly counters: number;
  /** Before matches and target. */
  readonly headBytes: number;
}

/** Throws where a table cannot be read, is changed just now or is too large. */
export function readLegacyGeneration(family: IpFamily): number {
  const layout = layouts[family];
  // Asking for a table that nobody has used would make it.
  const present = readFileSync(`/proc/net/${layout.tables}`, "latin1").split("\n");
  const tables = tableNames.filter((name) => present.includes(name));
  return hashTables(
    family,
    tables.map((table) => readLegacyTable(layout.number, table, mostBytes)),
  );
}

/** 48 bits for the entries of all tables, which are changed: their counters become zero. Throws RangeError when one is cut off. */
export function hashTables(family: IpFamily, tables: readonly Uint8Array[]): number {
  // 2 MB take 1.9 ms, as fast as can be had on processors without instructions for SHA-256.
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
