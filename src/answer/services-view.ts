/** Tables of Services with their endpoints, and of draining real servers. Pure. */
import { durationText } from "../base/duration-text.ts";
import { hostPort } from "../base/ip.ts";
import type { Answers } from "./answers.ts";
import { reasons } from "./reasons.ts";
import { type Block, type Column, indented, table, type View } from "./render.ts";
import type { DrainRow, DrainTimes, EndpointRow, ServiceRow } from "./rows.ts";

export const serviceColumns: readonly Column<ServiceRow>[] = [
  { title: "NAMESPACE", cell: ({ namespace }) => namespace },
  { title: "NAME", cell: ({ name }) => name },
  { title: "PORT", cell: ({ portName }) => portName, drop: 2 },
  { title: "TYPE", cell: ({ type }) => type, drop: 4 },
  { title: "PROTO", cell: ({ protocol }) => protocol },
  { title: "VIRTUAL-SERVER", cell: serverText },
  { title: "FRONTEND", cell: ({ frontend }) => frontend, drop: 3 },
  { title: "SCHED", cell: ({ scheduler }) => scheduler, drop: 5 },
  {
    title: "AFFINITY",
    cell: ({ affinitySeconds }) => (affinitySeconds === 0 ? "" : `${affinitySeconds}s`),
    drop: 7,
  },
  { title: "POLICY", cell: ({ trafficPolicy }) => trafficPolicy, drop: 6 },
  { title: "ENDPOINTS", cell: endpointsText },
  { title: "REASON", cell: reasonText },
];

const endpointColumns: readonly Column<EndpointRow>[] = [
  { title: "ENDPOINT", cell: ({ address, port }) => hostPort(address, port) },
  { title: "NODE", cell: ({ node }) => node, drop: 1 },
  { title: "STATE", cell: conditionText },
  { title: "LOCAL", cell: ({ local }) => yesOrNo(local), drop: 3 },
  { title: "ZONES", cell: ({ zoneHints = [] }) => zoneHints.join(","), drop: 4 },
  { title: "WEIGHT", cell: ({ weight }) => weight, isNumber: true },
  { title: "ACTIVE", cell: ({ activeConnections }) => activeConnections, isNumber: true },
  {
    title: "INACTIVE",
    cell: ({ inactiveConnections }) => inactiveConnections,
    isNumber: true,
    drop: 2,
  },
  { title: "DRAIN", cell: ({ drain }) => (drain === undefined ? "" : drainText(drain)), drop: 1 },
  { title: "REASON", cell: ({ reason, weightSignal }) => reason ?? weightSignal },
];

export const drainColumns: readonly Column<DrainRow>[] = [
  { title: "AGE", cell: ({ ageSeconds }) => durationText(ageSeconds) },
  {
    title: "DEADLINE",
    cell: ({ deadlineInSeconds }) =>
      deadlineInSeconds === undefined ? "none" : `in ${durationText(deadlineInSeconds)}`,
  },
  { title: "NAMESPACE", cell: ({ namespace }) => namespace, drop: 1 },
  { title: "NAME", cell: ({ name }) => name },
  { title: "PROTO", cell: ({ protocol }) => protocol, drop: 2 },
  { title: "VIRTUAL-SERVER", cell: ({ address, port }) => hostPort(address, port) },
  { title: "REAL-SERVER", cell: ({ realServer: { address, port } }) => hostPort(address, port) },
  { title: "ACTIVE", cell: ({ activeConnections }) => activeConnections },
  { title: "INACTIVE", cell: ({ inactiveConnections }) => inactiveConnections, drop: 3 },
];

/** Formats a row's address and ports: `10.96.0.10:53`, or `10.96.0.10:5060,10000-20000` for a port range. */
function serverText({ address, port, ports = String(port) }: ServiceRow): string {
  return `${hostPort(address, 0).slice(0, -1)}${ports}`;
}

/** If `hasDetails`, lists the endpoints below each virtual server. If the list is empty, shows `nothing`. */
export function servicesView(hasDetails: boolean, nothing: string): View<Answers["ServiceList"]> {
  return {
    blocks: ({ items }) => {
      if (items.length === 0) return [nothing];
      return [
        table(serviceColumns, items, hasDetails ? { details: endpointBlocks } : {}),
        ...(hasDetails ? reasonLines(items) : []),
      ];
    },
    names: ({ items }) => [...new Set(items.map(({ namespace, name }) => `${namespace}/${name}`))],
  };
}

export const drainsView: View<Answers["DrainList"]> = {
  blocks: ({ items }) =>
    items.length === 0 ? ["No real servers are draining"] : [table(drainColumns, items)],
};

function reasonLines(items: readonly ServiceRow[]): readonly string[] {
  const found = new Set(
    items.flatMap(({ endpoints = [] }) => endpoints.map(({ reason }) => reason)),
  );
  const lines = Object.entries(reasons)
    .filter(([reason, { remedy }]) => remedy !== undefined && found.has(reason))
    .map(([reason, { remedy }]) => `${reason}: ${remedy}`);
  return lines.length === 0 ? [] : ["", ...lines];
}

function endpointBlocks({ endpoints = [] }: ServiceRow): readonly Block[] {
  if (endpoints.length === 0) return ["  no endpoints"];
  return [indented(endpointsTable(endpoints))];
}

export function endpointsTable(rows: readonly EndpointRow[]): Block {
  return table(endpointColumns, rows);
}

/**
 * For example: `claimed-by-another-service (default/a, held-before)`. If the address is served, names the annotations
 * that have no effect, why a topology preference does not apply, and the number of tunnels.
 */
function reasonText(row: ServiceRow): string {
  const { reason, claimedBy, ignoredAnnotations = [], topologyPreference = "applied" } = row;
  const nodes = row.tunnelNodes;
  const tunnels = nodes === undefined ? [] : [`tunnels to ${nodes} node${nodes === 1 ? "" : "s"}`];
  const preference =
    topologyPreference === "applied" ? [] : [`prefer-topology: ${topologyPreference}`];
  if (reason === undefined) return [...ignoredAnnotations, ...preference, ...tunnels].join(", ");
  if (claimedBy === undefined) return reason;
  return `${reason} (${claimedBy.namespace}/${claimedBy.name}, ${claimedBy.claim})`;
}

/** Formats endpoint counts: `3/4 +1 draining` if 3 of 4 planned real servers are programmed. */
function endpointsText({ realServers: { programmed, planned, draining } }: ServiceRow): string {
  return `${programmed}/${planned}${draining === 0 ? "" : ` +${draining} draining`}`;
}

function conditionText({ ready, serving, terminating }: EndpointRow): string {
  if (ready === undefined) return "removed";
  const state = ready ? "ready" : serving === true ? "serving" : "not-ready";
  return terminating === true ? `${state},terminating` : state;
}

/** Formats a drain's age and deadline: `2 min 5 s, 12 min 55 s left`. */
function drainText({ ageSeconds, deadlineInSeconds }: DrainTimes): string {
  const left =
    deadlineInSeconds === undefined ? "no deadline" : `${durationText(deadlineInSeconds)} left`;
  return `${durationText(ageSeconds)}, ${left}`;
}

function yesOrNo(value: boolean | undefined): string {
  if (value === undefined) return "";
  return value ? "yes" : "no";
}
