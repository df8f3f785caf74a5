/** Expected outcomes for {kind of address} × {traffic policy} × {source}, as tables. */
import { columnName, type Path, transports } from "./path.ts";
import { type Frontend, frontends, type ServiceName } from "./services.ts";

type Except = NonNullable<Path["except"]>;
/** The same outcome in every column, or an outcome with exceptions for some columns. */
type Expectation = string | readonly [expected: string, except: Except];

/** Outcomes of connections from a pod, from the node, and from an external client. */
export type Expectations = readonly [
  frontend: Frontend,
  policy: string,
  fromPod: Expectation,
  fromNode: Expectation,
  fromClient: Expectation,
];

interface Side {
  /** Services by traffic policy. */
  readonly services: Readonly<Record<string, ServiceName>>;
  /** The place that represents a pod on this node. */
  readonly pod: string;
}

export const headings: readonly string[] = ["address", "traffic policy", "from"];

/** Returns one row for each expectation. */
export function pathsOf(table: readonly Expectations[], { services, pod }: Side): readonly Path[] {
  return table.flatMap(([frontend, policy, ...expectations]) => {
    const service = services[policy];
    if (service === undefined) throw new Error(`No Service for policy ${policy}`);
    return [pod, "node", "client"].map((from, index) => ({
      labels: [frontend, policy, from],
      from,
      target: { kind: "service", service, frontend } as const,
      ...expectationOf(expectations[index] ?? ""),
    }));
  });
}

export function expectationOf(expectation: Expectation): Pick<Path, "expected" | "except"> {
  if (typeof expectation === "string") return { expected: expectation };
  const [expected, except] = expectation;
  return { expected, except };
}

/** An outcome for the columns whose name contains a word. */
export function inColumns(word: string, outcome: string): Except {
  const names = transports.map(columnName).filter((name) => name.includes(word));
  return Object.fromEntries(names.map((name) => [name, outcome]));
}

const spread = "local←gateway, remote←node";

/** Routed pods with endpoints on this node and on another node. Other sections are compared with this one. */
export const routed: readonly Expectations[] = [
  ["cluster IP", "Cluster", "local←pod, remote←pod", spread, spread],
  ["cluster IP", "Local", "local←pod", "local←gateway", "local←gateway"],
  ["node port", "Cluster", spread, spread, spread],
  ["node port", "Local", "local←pod", "local←node", "local←client"],
  ["load-balancer IP", "Cluster", spread, spread, spread],
  ["load-balancer IP", "Local", "local←pod", "local←VIP", "local←client"],
  ["external IP", "Cluster", spread, spread, spread],
  ["external IP", "Local", "local←pod", "local←VIP", "local←client"],
];

/** The only endpoint is on the other node. */
export const noneLocal: readonly Expectations[] = [
  ["cluster IP", "Local", "remote←pod", "remote←node", "remote←node"],
  ["node port", "Local", "remote←pod", "remote←node", "silence"],
  ["load-balancer IP", "Local", "remote←pod", "silence", "silence"],
  ["external IP", "Local", "remote←pod", "silence", "silence"],
];

const refusedOnNode: Expectation = ["refused", inColumns("UDP", "EPERM")];

export const noneLocalInternal: readonly Expectations[] = [
  ["cluster IP", "Local", "refused", refusedOnNode, "refused"],
];

export const noEndpoints: readonly Expectations[] = frontends.map((frontend) => [
  frontend,
  "Cluster",
  "refused",
  refusedOnNode,
  "refused",
]);

/** The endpoint is a process in the node's own network. */
export const hostNetwork: readonly Expectations[] = [
  ...frontends.map(
    (frontend) => [frontend, "Cluster", "node←pod", "node←node", "node←client"] as const,
  ),
  ["cluster IP", "Local", "node←pod", "node←node", "node←client"],
  ["node port", "Local", "node←pod", "node←node", "node←client"],
  ["load-balancer IP", "Local", "node←pod", "node←VIP", "node←client"],
  ["external IP", "Local", "node←pod", "node←VIP", "node←client"],
];

const bridgedSpread = "bridged←gateway, remote←node";

/** A client and an endpoint behind one bridge. `direct` and `both` are the outcomes of the client there. */
function bridged(direct: string, both: string): readonly Expectations[] {
  return [
    ["cluster IP", "Cluster", both, bridgedSpread, bridgedSpread],
    ["cluster IP", "Local", direct, "bridged←gateway", "bridged←gateway"],
    ["node port", "Cluster", bridgedSpread, bridgedSpread, bridgedSpread],
    ["node port", "Local", direct, "bridged←node", "bridged←client"],
    ["load-balancer IP", "Cluster", bridgedSpread, bridgedSpread, bridgedSpread],
    ["load-balancer IP", "Local", direct, "bridged←VIP", "bridged←client"],
    ["external IP", "Cluster", bridgedSpread, bridgedSpread, bridgedSpread],
    ["external IP", "Local", direct, "bridged←VIP", "bridged←client"],
  ];
}

export const bridgedFiltered: readonly Expectations[] = bridged(
  "bridged←bridged-pod",
  "bridged←bridged-pod, remote←bridged-pod",
);
export const bridgedUnfiltered: readonly Expectations[] = bridged(
  "silence",
  "remote←bridged-pod, silence",
);

export const masqueradeAll: readonly Expectations[] = [
  ["cluster IP", "Cluster", spread, spread, spread],
  ["cluster IP", "Local", "local←gateway", "local←gateway", "local←gateway"],
];

export const noDetector: readonly Expectations[] = [
  ["cluster IP", "Cluster", "local←pod, remote←pod", spread, "local←client, silence"],
  ["cluster IP", "Local", "local←pod", "local←gateway", "local←client"],
];
