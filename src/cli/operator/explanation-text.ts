/** Explanations for people: the verdict, then the packet's way. Pure. */
import { hostPort } from "../../base/ip.ts";
import { escapeUnprintable } from "../../base/printable.ts";
import { type Column, tableLines } from "../../base/table.ts";
import type {
  DeliveryGroup,
  Explanation,
  PacketExplanation,
  PathStep,
} from "../../explain/explanation.ts";
import { endpointsTable } from "./service-tables.ts";

/** A blank line between two. */
export function explanationText(explanations: readonly Explanation[], width?: number): string {
  const blocks = explanations.map((one) => explanationLines(one, width));
  return `${blocks.map((lines) => lines.join("\n")).join("\n\n\n")}\n`;
}

/** A sentence for each address and port; then where the kernel is not as planned, once for all of them. */
export function shortExplanationText(explanations: readonly Explanation[]): string {
  const verdicts = explanations.flatMap(({ summary, packets }) => [
    summary,
    ...packets.flatMap(({ planned }) =>
      planned === undefined ? [] : [`${indent}planned: ${planned}`],
    ),
  ]);
  const differences = new Set(
    explanations.flatMap(({ differences }) => differences.map(differenceText)),
  );
  const lines = [
    ...verdicts.map(escapeUnprintable),
    ...section("Kernel and plan", [...differences]),
  ];
  return lines.map((line) => `${line}\n`).join("");
}

function explanationLines(explanation: Explanation, width?: number): readonly string[] {
  const { summary, endpoints, packets, differences } = explanation;
  const table = endpoints.length === 0 ? [] : endpointsTable(endpoints, innerWidth(width));
  return [
    escapeUnprintable(summary),
    "",
    ...titled(factsOf(explanation)),
    ...section("Endpoints", table),
    ...packets.flatMap((packet) => packetLines(packet, explanation, width)),
    ...section(
      "Kernel and plan",
      differences.length === 0 ? ["no difference"] : differences.map(differenceText),
    ),
    ...section("Connections", connectionLines(explanation)),
  ];
}

function differenceText({ kind, subject }: Explanation["differences"][number]): string {
  return `${differenceWords[kind]}: ${subject}`;
}

const differenceWords = {
  missing: "missing",
  "not-planned": "not planned",
  different: "different",
} as const;

type Fact = readonly [title: string, text: string];

function factsOf({
  service,
  losers,
  virtualServer,
  sourceRanges,
  forwardedTo,
  mode,
  ...destination
}: Explanation): readonly Fact[] {
  return [
    ["Service", service === undefined ? "none" : serviceText(service)],
    ...(losers.length === 0 ? [] : [["Claimed too by", losers.join(", ")] as const]),
    ...(forwardedTo === undefined ? [] : [["Forwarded to", forwardedTo] as const]),
    mode === "ipvs"
      ? ["Virtual server", serverText({ ...destination, forwardedTo, virtualServer })]
      : ["Mode", `${mode}${affinityText(service?.affinitySeconds ?? 0)}`],
    ...(sourceRanges.length === 0 ? [] : [["Source ranges", sourceRanges.join(", ")] as const]),
  ];
}

function serviceText(service: NonNullable<Explanation["service"]>): string {
  const { namespace, name, portName, frontend, trafficPolicy } = service;
  const port = portName === undefined ? "" : `:${portName}`;
  return `${namespace}/${name}${port}, ${frontend}, traffic policy ${trafficPolicy}`;
}

function serverText({
  virtualServer,
  forwardedTo,
  ...destination
}: Pick<Explanation, "protocol" | "address" | "port"> & {
  readonly virtualServer: Explanation["virtualServer"];
  readonly forwardedTo: string | undefined;
}): string {
  if (virtualServer === undefined) return "none";
  const { scheduler, persistenceTimeoutSeconds } = virtualServer;
  const place = `${destination.protocol} ${forwardedTo ?? hostPort(destination.address, destination.port)}`;
  return `${place}, scheduler ${scheduler}${affinityText(persistenceTimeoutSeconds)}`;
}

function affinityText(seconds: number): string {
  return seconds === 0 ? "" : `, a client keeps its endpoint for ${seconds} s`;
}

function titled(facts: readonly Fact[]): readonly string[] {
  const width = Math.max(...facts.map(([title]) => title.length));
  return facts.map(([title, text]) => escapeUnprintable(`${title.padEnd(width)}  ${text}`));
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0
    ? []
    : ["", title, ...lines.map((line) => indent + escapeUnprintable(line))];
}

const indent = "  ";

function innerWidth(width: number | undefined): number | undefined {
  return width === undefined ? undefined : Math.max(1, width - indent.length);
}

function packetLines(
  packet: PacketExplanation,
  { packets, virtualServer }: Explanation,
  width?: number,
): readonly string[] {
  const { from, source, inLink, summary, planned, sourceRange, masquerading, deliveries } = packet;
  const isKind = from !== source && from !== "this node";
  const example = from === source ? "" : isKind ? `, for example ${source}` : `, as ${source}`;
  const through = inLink === undefined ? "" : `, in through ${inLink}`;
  const facts: readonly Fact[] = [
    ...(packets.length === 1 ? [] : [["Verdict", summary] as const]),
    ...(planned === undefined ? [] : [["Planned", planned] as const]),
    ...(sourceRange === undefined ? [] : [["Source range", sourceRange] as const]),
    ...(masquerading === undefined
      ? []
      : [["Masquerading", withoutComments(masquerading)] as const]),
  ];
  const ipvs = virtualServer === undefined || deliveries.length === 0 ? [] : [ipvsRow(deliveries)];
  const rows = [
    ...packet.path.map(rowOf),
    ...ipvs,
    ...deliveries.flatMap((one) => deliveryRows(one, isKind)),
  ];
  return section(`From ${from}${example}${through}`, [
    ...(facts.length === 0 ? [] : titled(facts)),
    ...(rows.length === 0 ? [] : tableLines(pathColumns, rows, innerWidth(width))),
  ]);
}

interface PathRow {
  readonly place: string;
  readonly rule: string;
  readonly entry: string;
  readonly planned: string;
}

const pathColumns: readonly Column<PathRow>[] = [
  { title: "PLACE", text: ({ place }) => place },
  { title: "PLANNED", text: ({ planned }) => planned },
  { title: "ENTRY", text: ({ entry }) => entry },
  { title: "RULE", text: ({ rule }) => rule },
];

/** Comments of rules say no more than the names of the sets. */
function withoutComments(text: string): string {
  return text.replaceAll(/-m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+) ?/g, "");
}

function rowOf({ table, chain, rule, entry = "", isPlanned }: PathStep): PathRow {
  return {
    place: `${table} ${chain}`,
    rule: withoutComments(rule),
    entry,
    planned: isPlanned ? "yes" : "no",
  };
}

function ipvsRow(deliveries: readonly DeliveryGroup[]): PathRow {
  const count = deliveries.reduce((sum, { realServers }) => sum + realServers.length, 0);
  return { place: "IPVS", rule: `chooses one of ${count}`, entry: "", planned: "" };
}

function deliveryRows(group: DeliveryGroup, isKind: boolean): readonly PathRow[] {
  const { realServers, path, fate, isMasqueraded, seenSource, obstacle } = group;
  const seen = isKind && !isMasqueraded ? "the client's address" : seenSource;
  const source = seen === undefined ? "" : `, it sees ${seen}`;
  const masqueraded = isMasqueraded ? "masqueraded" : "not masqueraded";
  const end = fate === "delivered" ? `${masqueraded}${source}` : fate;
  const lost = obstacle === undefined ? "" : `; answers get lost: ${obstacle}`;
  const shown = realServers.slice(0, 3).join(", ");
  const more = realServers.length > 3 ? ` and ${realServers.length - 3} more` : "";
  return [
    ...path.map(rowOf),
    { place: "endpoint", rule: `${shown}${more}: ${end}${lost}`, entry: "", planned: "" },
  ];
}

function connectionLines({ connections, packets }: Explanation): readonly string[] {
  const { templates, ipvs, conntrack, isTruncated } = connections;
  const isOfClient = packets.length === 1;
  const lines = [
    ...templates.map(({ client, realServer, expiresInSeconds }) =>
      expiresInSeconds === undefined
        ? `affinity: ${client} was at ${realServer}, and returns there until its timeout ends`
        : `affinity: ${client} keeps ${realServer} for ${expiresInSeconds} s more`,
    ),
    ...ipvs.map(
      ({ client, realServer, state, expiresInSeconds }) =>
        `IPVS: ${client} -> ${realServer} ${state}, ${expiresInSeconds} s left`,
    ),
    ...conntrack.map(({ client, answeredBy }) => `conntrack: ${client}, answered by ${answeredBy}`),
    ...(isTruncated ? ["and more (20 of each kind are listed)"] : []),
  ];
  if (lines.length > 0) return lines;
  return [isOfClient ? "none of this client" : "none"];
}
