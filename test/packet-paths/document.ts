/** Results as text: the matrix for a terminal, and docs/reports/packet-paths.md. Pure. */
import { table } from "../demo/screen.ts";
import { type ColumnName, columnName, type Row, type SectionResult } from "./path.ts";
import type { ModeResult } from "./run-modes.ts";

const introduction = `# Where packets go

Every line was tried with real connections: \`test/lab/packet-paths.test.ts\` runs the proxy in a kernel with IPVS
(network namespaces for the node, pods, another node, clients), compares what happens with what is expected, and this
page with what happens. It is written by \`make packet-paths\`. Since the rules, sets and virtual servers are those of
kube-proxy's IPVS mode, so are these paths.

    client ──┐                                 ┌── pod, local, narrow      routed: a link each
            lan ──── node, with the proxy ─────┤
    node-2 ──┘                                 └── cni0 ── bridged-pod, bridged
      └── remote, remote-narrow, far

| word | meaning |
|---|---|
| \`client\`, \`branch\`, \`far\` | outside the cluster: the client, its other address, and one beyond a narrow link |
| \`pod\`, \`bridged-pod\` | a pod of the node, as a client |
| \`node\` | a process of the node as a client; as a source, the node's address in the LAN |
| \`gateway\` | as a source: the node's address on its links to pods |
| \`VIP\` | as a source: the very address that the client connected to |
| \`local←client\` | the endpoint \`local\` answered, and saw the address of \`client\` |
| \`refused\` | «port unreachable» or a reset, at once |
| \`silence\` | no answer |

«all» means TCP and UDP, or SCTP, over IPv4 and IPv6 (what of that the section is about), each tried by itself. Each
connection is a new one; where several endpoints are named, round robin went to each.
`;

/** The matrix: a line for each path, a column for each protocol and family. */
export function matrixText(results: readonly SectionResult[]): string {
  return results
    .map(({ section, rows }) => {
      const columns = section.columns.map(columnName);
      const heads = [...section.headings, ...columns];
      const lines = rows.map(({ path, outcomes }) => [
        ...path.labels,
        ...columns.map((name) => outcomes.get(name) ?? "?"),
      ]);
      return `${section.title}\n${table([heads, ...lines])}`;
    })
    .join("\n\n");
}

export function documentText(results: readonly SectionResult[]): string {
  return [introduction, ...results.map((result) => sectionText(result))].join("\n");
}

const modesIntroduction = `# Where packets go in modes iptables and userspace

As [where packets go](packet-paths.md), whose words these are, for the other two modes. Every line was tried with real
connections, after \`kube-ipvs explain\` had said what would happen; written by \`make packet-paths\`, and
\`test/lab/packet-paths-modes.test.ts\` tries a part of it in each test.
`;

/** The document of modes iptables and userspace. */
export function modesDocumentText(all: readonly ModeResult[]): string {
  const modes = all.map(({ given, results }) =>
    [
      `# Mode ${given.mode}\n`,
      `${given.text.map(wrap).join("\n\n")}\n`,
      ...results.map((result) => sectionText(result, given.mode)),
      `## Not there in mode ${given.mode}\n`,
      `${given.without.map(([title, reason]) => wrap(`- ${title}: ${reason}.`)).join("\n")}\n`,
    ].join("\n"),
  );
  return [modesIntroduction, ...modes].join("\n");
}

/** One section of a document. `mode`: of a document of several modes. */
export function sectionText({ section, rows }: SectionResult, mode?: string): string {
  const names = section.columns.map(columnName);
  const heads = [...section.headings, "over", "outcome"];
  const lines = rows.flatMap((row) =>
    outcomesOf(row, names).map(({ over, outcome }) => [...row.path.labels, over, `\`${outcome}\``]),
  );
  const rule = heads.map(() => "---");
  const rendered = [heads, rule, ...lines].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
  const text = section.text.map(wrap).join("\n\n");
  const title = mode === undefined ? section.title : `Mode ${mode}: ${section.title}`;
  return `## ${title}\n\n${text}\n\n${rendered}\n`;
}

interface OutcomeOver {
  readonly over: string;
  readonly outcome: string;
}

/** One line where all columns agree, else one for each outcome. */
function outcomesOf(row: Row, names: readonly ColumnName[]): readonly OutcomeOver[] {
  const namesByOutcome = Map.groupBy(names, (name) => row.outcomes.get(name) ?? "?");
  return [...namesByOutcome].map(([outcome, some]) => ({
    outcome,
    over: some.length === names.length ? "all" : some.join(", "),
  }));
}

/** Lines of at most 110 characters; those of a list item are indented. */
function wrap(paragraph: string): string {
  return paragraph
    .split("\n")
    .map((line) => {
      const indent = line.startsWith("- ") ? "  " : "";
      return line.replace(/(.{1,108})(?: |$)/g, `${indent}$1\n`).trim();
    })
    .join("\n");
}
