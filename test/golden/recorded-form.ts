/** Converts tool output to the recorded format. Pure. */
import { rangesChain } from "../../src/plan/range-rules.ts";

/** `ipvsadm -Sn`, `ip -o address`: lines in byte order, without trailing spaces. */
export function sortedLines(text: string): string {
  return joinLines(nonEmptyLines(text).sort());
}

/** `ipset save` without values that the kernel chooses (sizes and a random seed). */
export function ipsetForm(text: string): string {
  const chosen = / (?:hashsize|maxelem|bucketsize|initval) \S+/g;
  return sortedLines(text.replaceAll(chosen, ""));
}

/** `ip -o address show dev kube-ipvs0` without index and lifetimes. */
export function addressesForm(text: string): string {
  const lines = nonEmptyLines(text).map((line) =>
    line.replace(/^\d+: /, "").replace(/ *\\.*$/, ""),
  );
  return sortedLines(lines.join("\n"));
}

/** `ip -o link show kube-ipvs0` without index and hardware address. */
export function linkForm(text: string): string {
  const lines = nonEmptyLines(text).map((line) =>
    line.replace(/^\d+: /, "").replace(/link\/ether \S+ brd/, "link/ether brd"),
  );
  return joinLines(lines);
}

/** The tables to record. Only port ranges have a chain in mangle. */
export function recordedTables(
  hasChain: (table: string, chain: string) => boolean,
): readonly string[] {
  return hasChain("mangle", rangesChain) ? ["filter", "nat", "mangle"] : ["filter", "nat"];
}

/**
 * `iptables-save` of the recorded tables: chains in byte order, each followed by its rules in their own order.
 * Omits counters and canary chains, by which a proxy detects flushed rules.
 */
export function iptablesForm(text: string): string {
  const tables = readTables(text);
  const names = recordedTables((table, chain) => tables.get(table)?.has(chain) === true);
  const lines = names.flatMap((name) => [`*${name}`, ...tableLines(tables.get(name))]);
  return joinLines(lines);
}

interface SavedChain {
  /** ACCEPT, DROP, or `-` for a user-defined chain. */
  readonly policy: string;
  readonly rules: string[];
}

function readTables(text: string): ReadonlyMap<string, ReadonlyMap<string, SavedChain>> {
  const tables = new Map<string, Map<string, SavedChain>>();
  let chains = new Map<string, SavedChain>();
  for (const line of text.split("\n")) {
    const [word = "", name = ""] = line.split(" ", 2);
    if (word.startsWith("*")) {
      chains = new Map();
      tables.set(word.slice(1), chains);
    } else if (word.startsWith(":")) {
      chains.set(word.slice(1), { policy: name, rules: [] });
    } else if (word === "-A") {
      chains.get(name)?.rules.push(line);
    }
  }
  return tables;
}

function tableLines(chains: ReadonlyMap<string, SavedChain> | undefined): readonly string[] {
  const names = [...(chains?.keys() ?? [])].filter((name) => !name.includes("CANARY")).sort();
  return names.flatMap((name) => {
    const chain = chains?.get(name);
    return [`:${name} ${chain?.policy ?? "-"}`, ...inRecordedOrder(name, chain?.rules ?? [])];
  });
}

/** The rules of KUBE-IPVS-OUT-FILTER have no defined order, because each rejects a different address. */
export function inRecordedOrder(chainName: string, rules: readonly string[]): readonly string[] {
  return chainName === "KUBE-IPVS-OUT-FILTER" ? rules.toSorted() : rules;
}

function nonEmptyLines(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trimEnd())
    .filter((line) => line !== "");
}

function joinLines(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}
