export type TableName = "raw" | "mangle" | "nat" | "filter";

/** Input for iptables-restore that keeps existing rules. `:NAME` creates or empties a chain, and `:NAME POLICY` sets a policy. */
export function restore(table: TableName, lines: readonly string[]): string {
  const chains = lines.filter((line) => line.startsWith(":"));
  const rules = lines.filter((line) => !line.startsWith(":") && line !== "");
  return [
    "iptables-restore -w 5 -n <<'END'",
    `*${table}`,
    ...chains.map((line) => `${line} ${/ /.test(line) ? "" : "- "}[0:0]`),
    ...rules,
    "COMMIT",
    "END",
    "",
  ].join("\n");
}

export function nft(lines: readonly string[]): string {
  return ["nft -f - <<'END'", ...lines, "END", ""].join("\n");
}
