/** Formats results as text: the matrix for a terminal, the pages in docs/reports/, and their data files. Pure. */
import { table } from "../demo/screen.ts";
import { type ColumnName, columnName, type Row, type Section, type SectionResult } from "./path.ts";
import type { ModeResult } from "./run-modes.ts";

const introduction = `# Where packets go

[data/packet-paths.tsv](data/packet-paths.tsv) has the outcome of every path, tested with real connections. This page
explains its sections. \`test/lab/packet-paths.test.ts\` runs the proxy in a kernel with IPVS, with network namespaces
for the node, pods, another node and clients. It compares the outcomes with the expected ones and with the file, which
\`make packet-paths\` writes. Rules, sets, virtual servers and paths are those of kube-proxy's IPVS mode.

    client ──┐                                 ┌── pod, local, narrow      routed: one link each
            lan ──── node, with the proxy ─────┤
    node-2 ──┘                                 └── cni0 ── bridged-pod, bridged
      └── remote, remote-narrow, far

| word | meaning |
|---|---|
| \`client\`, \`branch\`, \`far\` | outside the cluster: a client, the same client's second address, and a client behind a link with a small MTU |
| \`pod\`, \`bridged-pod\` | a pod on the node, as a client |
| \`node\` | as a client, a process on the node; as a source, the node's LAN address |
| \`gateway\` | as a source: the node's address on its links to pods |
| \`VIP\` | as a source: the address that the client connected to |
| \`local←client\` | the endpoint \`local\` answered, and saw the client's address |
| \`refused\` | an immediate "port unreachable" or reset |
| \`silence\` | no reply |

"all" means every protocol and IP family in the section: TCP and UDP, or SCTP, over IPv4 and IPv6. Every test uses a
new connection. If an outcome names several endpoints, round robin chose each of them.
`;

/** The matrix, with a line for each path and a column for each protocol and family. */
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

export function documentText(sections: readonly Section[]): string {
  return [introduction, ...sections.map((section) => sectionText(section))].join("\n");
}

const modesIntroduction = `# Where packets go in iptables and userspace mode

This page explains the sections of [data/packet-paths-modes.tsv](data/packet-paths-modes.tsv). The terms are those of
[where packets go](packet-paths.md). Every path was tested with real connections, and \`kube-ipvs explain\` predicted each outcome.
\`make packet-paths\` writes the file, and \`test/lab/packet-paths-modes.test.ts\` tests part of it in each run.
`;

/** Writes the document of iptables mode and userspace mode. */
export function modesDocumentText(all: readonly ModeResult[]): string {
  const modes = all.map(({ given, results }) =>
    [
      `# ${given.mode} mode\n`,
      `${given.text.map(wrap).join("\n\n")}\n`,
      ...results.map(({ section }) => sectionText(section, given.mode)),
      `## Not tested in ${given.mode} mode\n`,
      `${given.without.map(([title, reason]) => wrap(`- ${title}: ${reason}.`)).join("\n")}\n`,
    ].join("\n"),
  );
  return [modesIntroduction, ...modes].join("\n");
}

/** Formats one section of a document. `mode` is set in a document of several modes. */
function sectionText(section: Section, mode?: string): string {
  return `## ${sectionTitle(section.title, mode)}\n\n${section.text.map(wrap).join("\n\n")}\n`;
}

function sectionTitle(title: string, mode?: string): string {
  return mode === undefined ? title : `${mode}: ${title}`;
}

/** Writes the outcomes to the data file that documentText explains. */
export function dataText(results: readonly SectionResult[]): string {
  return [dataHead, ...results.map((result) => dataRows(result))].join("");
}

/** Writes the data file of modesDocumentText. */
export function modesDataText(all: readonly ModeResult[]): string {
  const rows = all.flatMap(({ given, results }) =>
    results.map((result) => dataRows(result, given.mode)),
  );
  return [dataHead, ...rows].join("");
}

const dataHead = "section\tpath\tover\toutcome\n";

/** One line for each outcome of each path in a section, with tabs between cells. */
export function dataRows({ section, rows }: SectionResult, mode?: string): string {
  const names = section.columns.map(columnName);
  const title = sectionTitle(section.title, mode);
  return rows
    .flatMap((row) => {
      const labels = row.path.labels.map((label, index) => `${section.headings[index]}: ${label}`);
      const path = labels.join("; ").replaceAll("`", "");
      return outcomesOf(row, names).map(
        ({ over, outcome }) => `${[title, path, over, outcome].join("\t")}\n`,
      );
    })
    .join("");
}

interface OutcomeOver {
  readonly over: string;
  readonly outcome: string;
}

/** One line if all columns have the same outcome, otherwise one line for each outcome. */
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
