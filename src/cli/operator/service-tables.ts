/** Services, their endpoints, and what drains, as tables. Pure. */
import { durationText } from "../../base/duration-text.ts";
import { hostPort } from "../../base/ip.ts";
import { type Column, tableLines } from "../../base/table.ts";
import type {
  DrainRow,
  DrainTimes,
  EndpointRow,
  ServiceRow,
} from "../../daemon/operator/answers.ts";

const serviceColumns: readonly Column<ServiceRow>[] = [
  { title: "NAMESPACE", text: ({ namespace }) => namespace },
  { title: "NAME", text: ({ name }) => name },
  { title: "PORT", text: ({ portName = "" }) => portName },
  { title: "TYPE", text: ({ type }) => type },
  { title: "PROTO", text: ({ protocol }) => protocol },
  { title: "VIRTUAL-SERVER", text: ({ address, port }) => hostPort(address, port) },
  { title: "FRONTEND", text: ({ frontend }) => frontend },
  { title: "SCHED", text: ({ scheduler }) => scheduler },
  {
    title: "AFFINITY",
    text: ({ affinitySeconds }) => (affinitySeconds === 0 ? "" : `${affinitySeconds}s`),
  },
  { title: "POLICY", text: ({ trafficPolicy }) => trafficPolicy },
  { title: "ENDPOINTS", text: endpointsText },
  { title: "REASON", text: reasonText },
];

const endpointColumns: readonly Column<EndpointRow>[] = [
  { title: "ENDPOINT", text: ({ address, port }) => hostPort(address, port) },
  { title: "NODE", text: ({ node = "" }) => node },
  { title: "STATE", text: conditionText },
  { title: "LOCAL", text: ({ local }) => yesOrNo(local) },
  { title: "ZONES", text: ({ zoneHints = [] }) => zoneHints.join(",") },
  { title: "WEIGHT", text: ({ weight }) => countText(weight), isNumber: true },
  {
    title: "ACTIVE",
    text: ({ activeConnections }) => countText(activeConnections),
    isNumber: true,
  },
  {
    title: "INACTIVE",
    text: ({ inactiveConnections }) => countText(inactiveConnections),
    isNumber: true,
  },
  { title: "DRAIN", text: ({ drain }) => (drain === undefined ? "" : drainText(drain)) },
  { title: "REASON", text: ({ reason = "" }) => reason },
];

const drainColumns: readonly Column<DrainRow>[] = [
  { title: "AGE", text: ({ ageSeconds }) => durationText(ageSeconds) },
  {
    title: "DEADLINE",
    text: ({ deadlineInSeconds }) =>
      deadlineInSeconds === undefined ? "none" : `in ${durationText(deadlineInSeconds)}`,
  },
  { title: "NAMESPACE", text: ({ namespace = "" }) => namespace },
  { title: "NAME", text: ({ name = "" }) => name },
  { title: "PROTO", text: ({ protocol }) => protocol },
  { title: "VIRTUAL-SERVER", text: ({ address, port }) => hostPort(address, port) },
  { title: "REAL-SERVER", text: ({ realServer: { address, port } }) => hostPort(address, port) },
  { title: "ACTIVE", text: (row) => String(row.activeConnections), isNumber: true },
  { title: "INACTIVE", text: (row) => String(row.inactiveConnections), isNumber: true },
];

/** A line for each virtual server. */
export function servicesTable(rows: readonly ServiceRow[], width?: number): readonly string[] {
  return tableLines(serviceColumns, rows, width);
}

/** A table for each virtual server, its endpoints below it. */
export function wideServicesTable(rows: readonly ServiceRow[], width?: number): readonly string[] {
  const [titles = "", ...lines] = servicesTable(rows, width);
  return rows.flatMap(({ endpoints = [] }, index) => {
    const inner = width === undefined ? undefined : Math.max(1, width - indent.length);
    const below =
      endpoints.length === 0 ? ["no endpoints"] : tableLines(endpointColumns, endpoints, inner);
    const separator = index === 0 ? [] : [""];
    return [...separator, titles, lines[index] ?? "", ...below.map((line) => indent + line)];
  });
}

const indent = "  ";

/** A line for each endpoint of one virtual server. */
export function endpointsTable(rows: readonly EndpointRow[], width?: number): readonly string[] {
  return tableLines(endpointColumns, rows, width);
}

/** A line for each real server that drains. */
export function drainsTable(rows: readonly DrainRow[], width?: number): readonly string[] {
  return tableLines(drainColumns, rows, width);
}

/** `claimed-by-another-service (default/a, held-before)`. */
function reasonText({ reason = "", claimedBy }: ServiceRow): string {
  if (claimedBy === undefined) return reason;
  return `${reason} (${claimedBy.namespace}/${claimedBy.name}, ${claimedBy.claim})`;
}

/** `3/4 +1 draining`: programmed of planned. */
function endpointsText({ realServers: { programmed, planned, draining } }: ServiceRow): string {
  return `${programmed}/${planned}${draining === 0 ? "" : ` +${draining} draining`}`;
}

function conditionText({ ready, serving, terminating }: EndpointRow): string {
  if (ready === undefined) return "removed";
  const state = ready ? "ready" : serving === true ? "serving" : "not-ready";
  return terminating === true ? `${state},terminating` : state;
}

/** `2 min 5 s, 12 min 55 s left`. */
function drainText({ ageSeconds, deadlineInSeconds }: DrainTimes): string {
  const left =
    deadlineInSeconds === undefined ? "no deadline" : `${durationText(deadlineInSeconds)} left`;
  return `${durationText(ageSeconds)}, ${left}`;
}

function yesOrNo(value: boolean | undefined): string {
  if (value === undefined) return "";
  return value ? "yes" : "no";
}

function countText(value: number | undefined): string {
  return value === undefined ? "" : String(value);
}
