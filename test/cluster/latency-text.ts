/** The table of network programming latency, and the report's sentences about it. Pure. */

const head = [
  ...["proxy", "mode", "services", "changes per second", "requests per hour and daemon"],
  ...["connections per hour and daemon", "bytes per hour and daemon", "changes on all nodes"],
  ...["recorded changes", "p50 in seconds", "p50 bucket", "p99 in seconds", "p99 bucket"],
  ...["commit", "date"],
] as const;
export const latencyHead: readonly string[] = head;

/** One sentence for each run that changed endpoints. */
export function latencySentences(table: string): string {
  const rows = table.split("\n").slice(1).filter(Boolean);
  const sentences = rows.flatMap((line) => {
    const cells = line.split("\t");
    const of = (name: (typeof head)[number]): string => cells[head.indexOf(name)] ?? "";
    if (of("changes per second") === "0") return [];
    const quantileText = (name: "p50" | "p99"): string =>
      `${name} ${of(`${name} in seconds`)} s (${of(`${name} bucket`)} s)`;
    const counts = `${of("recorded changes")} of ${of("changes on all nodes")} changes`;
    const who = `${of("proxy")} in ${of("mode")} mode with ${of("services")} Services`;
    return `- ${who} recorded ${counts}: ${quantileText("p50")}, ${quantileText("p99")}.`;
  });
  return sentences.join("\n");
}
