/** What the kernel remembers of connections to one destination. */
import { hostPort, type IpAddress } from "../../base/ip.ts";
import type { Protocol } from "../../base/protocol.ts";
import type { Destination } from "../../daemon/operator/answers.ts";
import { type IpvsConnection, listConnections } from "../../kernel/ipvs/connections.ts";
import type { KernelReaders } from "../../kernel/open-readers.ts";
import type { Flow } from "../../state/flow.ts";
import type { Connections, RememberedConnection, TrackedConnection } from "../explanation.ts";

/** Of each kind. */
const maxListed = 20;

export const noConnections: Connections = {
  templates: [],
  ipvs: [],
  conntrack: [],
  isTruncated: false,
};

/** With `client` absent templates and IPVS connections of all; conntrack entries are read for a client only. */
export async function readConnections(
  { conntrack }: Pick<KernelReaders, "conntrack">,
  { protocol, address: destination, port: destinationPort }: Destination,
  client: IpAddress | undefined,
): Promise<Connections> {
  if (protocol === "ICMP") return noConnections;
  const isWanted = ({ virtualServer, client: from }: IpvsConnection): boolean =>
    virtualServer.protocol === protocol &&
    virtualServer.address === destination &&
    virtualServer.port === destinationPort &&
    (client === undefined || from === client);
  const entries = listConnections(isWanted);
  const templates = entries.filter(({ clientPort }) => clientPort === 0);
  const ipvs = entries.filter(({ clientPort }) => clientPort !== 0);
  const to = { protocol, address: destination, port: destinationPort };
  const flows = client === undefined ? [] : await flowsTo(conntrack, to, client);
  return {
    templates: templates.slice(0, maxListed).map(remembered),
    ipvs: ipvs.slice(0, maxListed).map(remembered),
    conntrack: flows.slice(0, maxListed).map(tracked),
    isTruncated: [templates, ipvs, flows].some(({ length }) => length > maxListed),
  };
}

/** In modes without IPVS, where conntrack alone remembers: of all clients where none is named. */
export async function readTracked(
  { conntrack }: Pick<KernelReaders, "conntrack">,
  destination: Destination,
  client: IpAddress | undefined,
): Promise<Connections> {
  if (destination.protocol === "ICMP") return noConnections;
  const flows = await flowsTo(conntrack, destination as ConnectionsTo, client);
  return {
    ...noConnections,
    conntrack: flows.slice(0, maxListed).map(tracked),
    isTruncated: flows.length > maxListed,
  };
}

type ConnectionsTo = Destination & { readonly protocol: Protocol };

async function flowsTo(
  conntrack: KernelReaders["conntrack"],
  { protocol, address: destination, port: destinationPort }: ConnectionsTo,
  client: IpAddress | undefined,
): Promise<readonly Flow[]> {
  const flows = await conntrack.listFlows(protocol, { destination, destinationPort });
  return client === undefined ? flows : flows.filter(({ source }) => source === client);
}

function tracked(flow: Flow): TrackedConnection {
  return {
    client: hostPort(flow.source, flow.sourcePort),
    answeredBy: hostPort(flow.replySource, flow.replySourcePort),
  };
}

function remembered(connection: IpvsConnection): RememberedConnection {
  const { client, clientPort, realServer, state, expiresInSeconds } = connection;
  return {
    client: clientPort === 0 ? client : hostPort(client, clientPort),
    realServer: hostPort(realServer.address, realServer.port),
    ...{ state, expiresInSeconds },
  };
}
