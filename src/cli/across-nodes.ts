/**
 * `kube-ipvs __nodes COMMAND …`: prints many nodes' answers as one table. The kubectl plugin collects the answers. The
 * input has a line `= NODE EXIT-CODE` for each node, followed by the command's output, with `|` before each line of
 * stdout and `!` before each line of stderr.
 */
import { type ExplanationList, exitCodes, listOf } from "../answer/answer.ts";
import type { Answers, ListOf, Status, StatusWithoutDaemon } from "../answer/answers.ts";
import {
  type Comparison,
  comparisonView,
  differencesBetween,
  type NodeDifference,
  type NodeServices,
} from "../answer/comparison.ts";
import type { Explanation } from "../answer/explanation.ts";
import { type Column, rendered, table } from "../answer/render.ts";
import { drainColumns, serviceColumns } from "../answer/services-view.ts";
import { hostPort, type IpAddress } from "../base/ip.ts";
import { isRecord } from "../base/is-record.ts";
import { parseJson } from "../base/parse-json.ts";
import type { Finding } from "../doctor/check.ts";
import { type DoctorReport, doctorColumns } from "../doctor/render.ts";

export interface NodeAnswer {
  readonly node: string;
  readonly exitCode: number;
  /** Undefined if the node did not answer. */
  readonly answer?: unknown;
  /** Why there is no answer. */
  readonly error?: string;
}

export type NodeList = ListOf<"NodeList", NodeAnswer>;

/** How to show a command's answers: the rows of one answer, and their columns. */
interface NodeRows<Answer, Row> {
  readonly columns: readonly Column<Row>[];
  readonly rowsOf: (answer: Answer) => readonly Row[];
  /** By default, rows are sorted by node. */
  readonly orderOf?: (row: Row) => string;
}

const statusRows: NodeRows<Status | StatusWithoutDaemon, Status | StatusWithoutDaemon> = {
  columns: [
    { title: "VERDICT", cell: ({ verdict }) => verdict },
    { title: "MODE", cell: (one) => ("mode" in one ? one.mode : ""), drop: 2 },
    { title: "VERSION", cell: (one) => ("versions" in one ? one.versions.program : ""), drop: 1 },
    { title: "SUMMARY", cell: ({ summary }) => summary.replace(/^\w+[:,] /, "") },
  ],
  rowsOf: (status) => [status],
};

const serviceRows: NodeRows<Answers["ServiceList"], Answers["ServiceList"]["items"][number]> = {
  columns: serviceColumns,
  rowsOf: ({ items }) => items,
  orderOf: ({ namespace, name, protocol, address, port }) =>
    `${namespace}/${name} ${protocol} ${hostPort(address as IpAddress, port)}`,
};

const drainRows: NodeRows<Answers["DrainList"], Answers["DrainList"]["items"][number]> = {
  columns: drainColumns,
  rowsOf: ({ items }) => items,
};

/** The checks that are not ok, or the number of checks if all are ok. */
const doctorRows: NodeRows<DoctorReport, Pick<Finding, "verdict" | "name" | "evidence">> = {
  columns: doctorColumns,
  rowsOf: ({ verdict, checks }) =>
    verdict === "ok"
      ? [{ verdict, name: "all", evidence: `${checks.length} checks are ok` }]
      : checks.filter((one) => one.verdict !== "ok"),
};

/** Adds a warning to the reports of nodes whose daemon's version differs from that on most nodes. */
function withVersions(items: readonly NodeAnswer[]): readonly NodeAnswer[] {
  const versions = items.map(({ answer }) => versionIn(answer as DoctorReport | undefined));
  const groups = [...Map.groupBy(versions, (one) => one)].filter(([one]) => one !== undefined);
  const [most] = groups.toSorted(([, one], [, other]) => other.length - one.length);
  return items.map((item, index) => {
    const version = versions[index];
    if (version === undefined || version === most?.[0]) return item;
    const { checks, verdict, ...report } = item.answer as DoctorReport;
    const evidence = `kube-ipvs ${version} is running, but most nodes run ${most?.[0]}`;
    const all = checks.map((one): Finding => {
      return one.name === "version" ? { ...one, verdict: "warn", evidence } : one;
    });
    const answer = { ...report, verdict: verdict === "ok" ? "warn" : verdict, checks: all };
    return { ...item, answer, exitCode: exitCodes.wrong };
  });
}

/** The daemon's version, from the evidence of the check `version`. */
function versionIn(report: DoctorReport | undefined): string | undefined {
  const evidence = report?.checks?.find(({ name }) => name === "version")?.evidence;
  return /^kube-ipvs (\S+) is running/.exec(evidence ?? "")?.[1];
}

const explainRows: NodeRows<ExplanationList, Explanation> = {
  columns: [
    { title: "VERDICT", cell: ({ verdict }) => verdict },
    { title: "SUMMARY", cell: ({ summary }) => summary },
  ],
  rowsOf: ({ items }) => items,
};

const rowsByCommand = {
  status: statusRows,
  services: serviceRows,
  drains: drainRows,
  doctor: doctorRows,
  explain: explainRows,
} as const;

export const fleetCommands: readonly string[] = [...Object.keys(rowsByCommand), "compare"];

/** Returns the text and the worst exit code. Throws if the command is not one of {@link fleetCommands}. */
export function nodesText(
  command: string,
  input: string,
  format: string,
  width: number | undefined,
): { readonly text: string; readonly exitCode: number } {
  const answered = readNodes(input).toSorted((one, other) => byName(one.node, other.node));
  const items = command === "doctor" ? withVersions(answered) : answered;
  const list: NodeList = listOf("NodeList", items);
  const exitCode = Math.max(exitCodes.fine, ...items.map((one) => one.exitCode));
  if (command === "compare") {
    const comparison = comparisonOf(items);
    const text = rendered(comparison, comparisonView, format, { width });
    return { text, exitCode: comparison.items.length === 0 ? exitCode : exitCodes.wrong };
  }
  const rows = rowsByCommand[command as keyof typeof rowsByCommand];
  if (rows === undefined) {
    throw new Error(
      `${command} cannot combine answers from many nodes: use ${fleetCommands.join(", ")}`,
    );
  }
  const view = { blocks: () => blocksOf(rows as NodeRows<unknown, unknown>, items) };
  return { text: rendered(list, view, format, { width }), exitCode };
}

/** Nodes that did not answer come first. */
function comparisonOf(all: readonly NodeAnswer[]): Comparison {
  const nodes = new Map<string, NodeServices>();
  const silent: NodeDifference[] = [];
  for (const { node, answer, error = otherVersionText } of all) {
    if (isComparable(answer)) nodes.set(node, answer);
    else silent.push({ node, difference: error });
  }
  const items = [...silent, ...differencesBetween(nodes)];
  return { ...listOf("Comparison", items), nodeCount: nodes.size };
}

function isComparable(answer: unknown): answer is NodeServices {
  try {
    differencesBetween(new Map([["", answer as NodeServices]]));
    return isRecord(answer) && answer["kind"] === "NodeServices";
  } catch {
    return false;
  }
}

const otherVersionText =
  "the answer is from a different version of kube-ipvs (-o json shows the answer)";

/** One line of the table. */
interface NodeRow {
  readonly node: string;
  readonly order: string;
  readonly cells: readonly (string | number | undefined)[];
}

/** Nodes without an answer, or with one from a different version, come first. */
function blocksOf<Answer, Row>(
  { columns, rowsOf, orderOf = () => "" }: NodeRows<Answer, Row>,
  items: readonly NodeAnswer[],
): ReturnType<typeof table>[] | string[] {
  const failed = (node: string, error: string): readonly NodeRow[] => [
    { node, order: "", cells: [...columns.slice(1).map(() => ""), error] },
  ];
  const rows = items.flatMap(({ node, answer, error = "no answer" }): readonly NodeRow[] => {
    if (answer === undefined) return failed(node, error);
    try {
      return rowsOf(answer as Answer).map((row) => {
        const cells = columns.map((column) => column.cell(row));
        return { node, order: orderOf(row), cells };
      });
    } catch {
      return failed(node, otherVersionText);
    }
  });
  if (rows.length === 0) return ["No results on any node"];
  const sorted = rows.toSorted((one, other) => byName(one.order, other.order));
  const all = columns.map(({ color: _, ...shape }, index): Column<NodeRow> => {
    return { ...shape, cell: ({ cells }) => cells[index] };
  });
  return [table([{ title: "NODE", cell: ({ node }) => node }, ...all], sorted)];
}

/** Compares numbers in names numerically. */
function byName(one: string, other: string): number {
  return one.localeCompare(other, "en", { numeric: true });
}

function readNodes(input: string): readonly NodeAnswer[] {
  const sections: { head: string; out: string[]; err: string[] }[] = [];
  for (const line of input.split("\n")) {
    if (line.startsWith("= ")) sections.push({ head: line.slice(2), out: [], err: [] });
    else if (line.startsWith("|")) sections.at(-1)?.out.push(line.slice(1));
    else if (line.startsWith("!")) sections.at(-1)?.err.push(line.slice(1));
  }
  return sections.map(({ head, out, err }) => {
    const [node = "", code = ""] = head.split(" ");
    const text = out.join("\n");
    const isKnown = /^[012]$/.test(code);
    const exitCode = isKnown ? Number(code) : exitCodes.noAnswer;
    try {
      return { node, exitCode, answer: parseJson(text) };
    } catch {
      const reason = [...out, ...err].map((line) => line.trim()).findLast((line) => line !== "");
      const failed = Math.max(exitCode, exitCodes.noAnswer);
      return { node, exitCode: failed, error: reason ?? `exit code ${code}` };
    }
  });
}
