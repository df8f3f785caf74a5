/** Shows explanations to people: the verdict, then the packet's path. Pure. */
import { hostPort } from "../base/ip.ts";
import type { ExplanationList } from "./answer.ts";
import type {
  DeliveryGroup,
  Explanation,
  PacketExplanation,
  PathStep,
  Probe,
} from "./explanation.ts";
import { type Block, type Column, type Fact, facts, section, table, type View } from "./render.ts";
import { endpointsTable } from "./services-view.ts";

/** Separates explanations by two blank lines. */
export const explanationView: View<ExplanationList> = {
  blocks: ({ items }) =>
    items.flatMap((one, index) => [...(index === 0 ? [] : ["", ""]), ...explanationBlocks(one)]),
};

/** Shows one sentence per address and port, then all differences between kernel and plan, without duplicates. */
export const shortExplanationView: View<ExplanationList> = {
  blocks: ({ items }) => {
    const differences = items.flatMap(({ differences }) => differences.map(differenceText));
    return [
      ...items.flatMap(({ summary, packets, probes = [] }) => [
        summary,
        ...probes.map((one) => `  probe: ${probeText(one)}`),
        ...packets.flatMap(({ planned }) =>
          planned === undefined ? [] : [`  planned: ${planned}`],
        ),
      ]),
      section("Kernel and plan", ...new Set(differences)),
    ];
  },
};

function explanationBlocks(explanation: Explanation): readonly Block[] {
  const { summary, endpoints, packets, differences, probes, advice = [] } = explanation;
  const differing = differences.length === 0 ? ["no difference"] : differences.map(differenceText);
  return [
    summary,
    "",
    facts(factsOf(explanation)),
    ...(endpoints.length === 0 ? [] : [section("Endpoints", endpointsTable(endpoints))]),
    ...packets.map((packet) => packetBlock(packet, explanation)),
    section("Kernel and plan", ...differing),
    section("Connections", ...connectionLines(explanation)),
    ...(probes === undefined ? [] : [section("Probes from this node", ...probes.map(probeText))]),
    section("What to do", ...advice),
  ];
}

function probeText({ endpoint, milliseconds, error }: Probe): string {
  return error === undefined
    ? `${endpoint} accepts connections (${milliseconds} ms)`
    : `${endpoint} does not accept connections: ${error}`;
}

function differenceText({ kind, subject }: Explanation["differences"][number]): string {
  return `${kind === "not-planned" ? "not planned" : kind}: ${subject}`;
}

function factsOf(explanation: Explanation): readonly Fact[] {
  const { service, losers, conflicts, sourceRanges, forwardedTo, mode } = explanation;
  return [
    ["Service", service === undefined ? "none" : serviceText(service)],
    ...optional("Also requested by", losers.join(", ")),
    ...conflicts.map((text): Fact => ["Conflict", text]),
    ...optional("Forwarded to", forwardedTo),
    mode === "ipvs"
      ? ["Virtual server", serverText(explanation)]
      : ["Mode", `${mode}${affinityText(service?.affinitySeconds ?? 0)}`],
    ...optional("Source ranges", sourceRanges.join(", ")),
  ];
}

function optional(title: string, text: string | undefined): readonly Fact[] {
  return text === undefined || text === "" ? [] : [[title, text]];
}

function serviceText(service: NonNullable<Explanation["service"]>): string {
  const { namespace, name, portName, frontend, trafficPolicy } = service;
  const port = portName === undefined ? "" : `:${portName}`;
  return `${namespace}/${name}${port}, ${frontend}, traffic policy ${trafficPolicy}`;
}

function serverText(explanation: Explanation): string {
  const { virtualServer, forwardedTo, protocol, address, port } = explanation;
  if (virtualServer === undefined) return "none";
  const { scheduler, persistenceTimeoutSeconds } = virtualServer;
  const place = `${protocol} ${forwardedTo ?? hostPort(address, port)}`;
  return `${place}, scheduler ${scheduler}${affinityText(persistenceTimeoutSeconds)}`;
}

function affinityText(seconds: number): string {
  return seconds === 0 ? "" : `, a client keeps its endpoint for ${seconds} s`;
}

function packetBlock(packet: PacketExplanation, { packets, virtualServer }: Explanation): Block {
  const { from, source, inLink, summary, planned, sourceRange, masquerading, deliveries } = packet;
  const isKind = from !== source && from !== "this node";
  const example = from === source ? "" : isKind ? `, for example ${source}` : `, as ${source}`;
  const through = inLink === undefined ? "" : `, in through ${inLink}`;
  const rows = [
    ...optional("Verdict", packets.length === 1 ? "" : summary),
    ...optional("Planned", planned),
    ...optional("Source range", sourceRange),
    ...optional("Scheduled", packet.scheduled),
    ...optional("Masquerading", masquerading === undefined ? "" : withoutComments(masquerading)),
  ];
  const path = [
    ...packet.path.map(rowOf),
    ...(virtualServer === undefined || deliveries.length === 0 ? [] : [ipvsRow(deliveries)]),
    ...deliveries.flatMap((one) => deliveryRows(one, isKind)),
  ];
  return section(
    `From ${from}${example}${through}`,
    ...(rows.length === 0 ? [] : [facts(rows)]),
    ...(path.length === 0 ? [] : [table(pathColumns, path)]),
  );
}

interface PathRow {
  readonly place: string;
  readonly rule: string;
  readonly entry?: string | undefined;
  readonly planned?: string;
}

const pathColumns: readonly Column<PathRow>[] = [
  { title: "PLACE", cell: ({ place }) => place },
  { title: "PLANNED", cell: ({ planned }) => planned },
  { title: "ENTRY", cell: ({ entry }) => entry, drop: 1 },
  { title: "RULE", cell: ({ rule }) => rule },
];

/** Removes rules' comments, because they repeat the set names. */
function withoutComments(text: string): string {
  return text.replaceAll(/-m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+) ?/g, "");
}

function rowOf({ table, chain, rule, entry, isPlanned, isMaybe }: PathStep): PathRow {
  const planned = isMaybe === true ? "may match" : isPlanned ? "yes" : "no";
  return { place: `${table} ${chain}`, rule: withoutComments(rule), entry, planned };
}

function ipvsRow(deliveries: readonly DeliveryGroup[]): PathRow {
  const count = deliveries.reduce((sum, { realServers }) => sum + realServers.length, 0);
  return { place: "IPVS", rule: `chooses one of ${count}` };
}

function deliveryRows(group: DeliveryGroup, isKind: boolean): readonly PathRow[] {
  const { realServers, path, fate, isMasqueraded, seenSource, obstacle } = group;
  const seen = isKind && !isMasqueraded ? "the client's address" : seenSource;
  const source = seen === undefined ? "" : `, it sees ${seen}`;
  const masqueraded = isMasqueraded ? "masqueraded" : "not masqueraded";
  const isDelivered = fate === "delivered";
  const end = isDelivered ? `${masqueraded}${source}` : fate;
  const why = isDelivered ? "; replies are lost: " : ": ";
  const lost = obstacle === undefined ? "" : `${why}${obstacle}`;
  const shown = realServers.slice(0, 3).join(", ");
  const more = realServers.length > 3 ? ` and ${realServers.length - 3} more` : "";
  return [...path.map(rowOf), { place: "endpoint", rule: `${shown}${more}: ${end}${lost}` }];
}

function connectionLines({ connections, packets }: Explanation): readonly string[] {
  const { templates, ipvs, conntrack, isTruncated } = connections;
  const lines = [
    ...templates.map(({ client, realServer, expiresInSeconds }) =>
      expiresInSeconds === undefined
        ? `affinity: ${client} was at ${realServer} and returns there until its timeout expires`
        : `affinity: ${client} keeps ${realServer} for ${expiresInSeconds} s more`,
    ),
    ...ipvs.map(
      ({ client, realServer, state, expiresInSeconds }) =>
        `IPVS: ${client} -> ${realServer} ${state}, ${expiresInSeconds} s left`,
    ),
    ...conntrack.map(({ client, answeredBy }) => `conntrack: ${client} -> ${answeredBy}`),
    ...(isTruncated ? ["and more (20 of each kind are listed)"] : []),
  ];
  if (lines.length > 0) return lines;
  return [packets.length === 1 ? "none from this client" : "none"];
}
