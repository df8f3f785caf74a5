/** Compares what many nodes serve for the same Services. Pure. */
import { hostPort } from "../base/ip.ts";
import type { Envelope, ListOf, Problem } from "./answers.ts";
import { type Column, table, type View } from "./render.ts";
import type { HistoryEntry, ServiceRow } from "./rows.ts";

/** The Services that one node serves, as `kube-ipvs compare` prints them. */
export interface NodeServices extends Envelope<"NodeServices"> {
  /** RFC 3339. */
  readonly time: string;
  readonly items: readonly ServiceRow[];
  /** Why the node may be out of date. */
  readonly problems: readonly Problem[];
  readonly history: readonly HistoryEntry[];
}

/** The answer of `kubectl kube-ipvs compare`. */
export interface Comparison extends ListOf<"Comparison", NodeDifference> {
  /** Number of nodes that answered. */
  readonly nodeCount: number;
}

/** A node that differs from most others, or that did not answer. */
export interface NodeDifference {
  readonly node: string;
  /** For example `default/web:http`. Undefined if the node did not answer. */
  readonly service?: string;
  /** For example `TCP 10.96.0.10:80`, or `TCP node port 30080`. */
  readonly frontend?: string;
  /** How the node differs, or why it did not answer. */
  readonly difference: string;
  /** When the difference began (RFC 3339), from the node's history or problems. Undefined if unknown. */
  readonly since?: string;
  /** The event or problem that began at the time in `since`. */
  readonly cause?: string;
}

/** The facts about a Service's row that should be the same on all nodes. */
function factsOf(row: ServiceRow): readonly string[] {
  const { endpoints = [], reason, scheduler, affinitySeconds, trafficPolicy } = row;
  // With the policy Local, a topology preference or topology hints, each node uses different endpoints.
  const isShared =
    trafficPolicy === "Cluster" &&
    row.topologyPreference === undefined &&
    endpoints.every(
      ({ zoneHints = [], nodeHints = [] }) => zoneHints.length + nodeHints.length === 0,
    );
  return [
    ...(reason === undefined ? [] : [`reason ${reason}`]),
    ...[`scheduler ${scheduler}`, `session affinity of ${affinitySeconds} s`],
    ...endpoints
      .filter(({ ready }) => ready === true)
      .map(({ address, port }) => `ready endpoint ${hostPort(address, port)}`),
    ...endpoints
      .filter((one) => isShared && one.reason === undefined)
      .map(({ address, port }) => `endpoint in use ${hostPort(address, port)}`),
  ];
}

/** Lists the nodes that differ from most others, by Service and frontend. */
export function differencesBetween(
  nodes: ReadonlyMap<string, NodeServices>,
): readonly NodeDifference[] {
  const rows = [...nodes].flatMap(([node, { items }]) => items.map((row) => ({ node, row })));
  const groups = Map.groupBy(rows, ({ row }) => `${serviceText(row)} ${frontendText(row)}`);
  return [...groups.values()].flatMap((group) => {
    const facts = new Map<string, ReadonlySet<string>>();
    for (const { node, row } of group) {
      facts.set(node, new Set([...(facts.get(node) ?? ["this frontend"]), ...factsOf(row)]));
    }
    const common = Map.groupBy(
      [...facts.values()].flatMap((one) => [...one]),
      (fact) => fact,
    );
    const isCommon = (fact: string): boolean => (common.get(fact)?.length ?? 0) * 2 >= nodes.size;
    return [...nodes].flatMap(([node, answer]) => {
      const own = facts.get(node) ?? new Set();
      const lacking = [...common.keys()].filter((fact) => isCommon(fact) && !own.has(fact));
      const extra = [...own].filter((fact) => !isCommon(fact));
      // If the frontend is missing, its other differences are irrelevant.
      const difference = [
        ...(own.size === 0 ? lacking.slice(0, 1) : lacking).map((fact) => `lacks ${fact}`),
        ...(isCommon("this frontend") ? extra : extra.slice(0, 1)).map((fact) => `has ${fact}`),
      ].join("; ");
      const [{ row } = { row: undefined }] = group;
      if (difference === "" || row === undefined) return [];
      const about = { service: serviceText(row), frontend: frontendText(row) };
      return [{ node, ...about, difference, ...sinceOf(row, answer) }];
    });
  });
}

/** The node's last event about the Service or, if there is none, the node's longest-lasting problem. */
function sinceOf(
  row: ServiceRow,
  node: NodeServices | undefined,
): Pick<NodeDifference, "since" | "cause"> {
  if (node === undefined) return {};
  const [name, server] = [
    `${row.namespace}/${row.name}`,
    `${row.protocol} ${hostPort(row.address, row.port)}`,
  ];
  const event = node.history.findLast(
    ({ subject, services = [] }) =>
      services.includes(name) || subject === server || subject.startsWith(`${server} `),
  );
  if (event !== undefined) return { since: event.time, cause: `${event.event}: ${event.subject}` };
  const [problem] = node.problems
    .filter(({ sinceSeconds }) => sinceSeconds !== undefined)
    .toSorted((one, other) => (other.sinceSeconds ?? 0) - (one.sinceSeconds ?? 0));
  if (problem === undefined) return {};
  const sinceMs = Date.parse(node.time) - (problem.sinceSeconds ?? 0) * 1_000;
  return { since: new Date(sinceMs).toISOString(), cause: problem.message };
}

function serviceText({ namespace, name, portName }: ServiceRow): string {
  return `${namespace}/${name}${portName === undefined ? "" : `:${portName}`}`;
}

/** Node ports are served at the addresses of each node. */
function frontendText({ frontend, protocol, address, port }: ServiceRow): string {
  return frontend === "node-port"
    ? `${protocol} node port ${port}`
    : `${protocol} ${hostPort(address, port)}`;
}

const columns: readonly Column<NodeDifference>[] = [
  { title: "NODE", cell: ({ node }) => node },
  { title: "SERVICE", cell: ({ service }) => service },
  { title: "FRONTEND", cell: ({ frontend }) => frontend, drop: 1 },
  { title: "SINCE", cell: ({ since }) => since },
  { title: "CAUSE", cell: ({ cause }) => cause, drop: 2 },
  { title: "DIFFERENCE", cell: ({ difference }) => difference },
];

export const comparisonView: View<Comparison> = {
  blocks: ({ items, nodeCount }) => {
    const text = `${nodeCount} nodes compared: no differences`;
    return items.length === 0 ? [text] : [table(columns, items)];
  },
};
