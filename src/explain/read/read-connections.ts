/** Reads the kernel's connections to one destination. */

import type { Destination } from "../../answer/answers.ts";
import type {
  Connections,
  RememberedConnection,
  TrackedConnection,
} from "../../answer/explanation.ts";
import { hostPort, type IpAddress } from "../../base/ip.ts";
import { type IpvsConnection, listConnections } from "../../kernel/ipvs/connections.ts";
import type { KernelReaders } from "../../kernel/open-readers.ts";
import type { Flow } from "../../state/flow.ts";

/** Maximum number of listed connections of each kind. */
const maxListed = 20;

export const noConnections: Connections = {
  templates: [],
  ipvs: [],
  conntrack: [],
  isTruncated: false,
};

/**
 * Reads the connections of `client` or, if it is undefined, of all clients. In IPVS mode, the IPVS table already
 * contains all connections, so conntrack entries are read only if `client` is given. Other modes use only conntrack.
 */
export async function readConnections(
  { conntrack }: Pick<KernelReaders, "conntrack">,
  { protocol, address: destination, port: destinationPort }: Destination,
  client: IpAddress | undefined,
  hasIpvs: boolean,
): Promise<Connections> {
  if (protocol === "ICMP") return noConnections;
  const isWanted = ({ virtualServer, client: from }: IpvsConnection): boolean =>
    virtualServer.protocol === protocol &&
    virtualServer.address === destination &&
    virtualServer.port === destinationPort &&
    (client === undefined || from === client);
  const entries = hasIpvs ? listConnections(isWanted) : [];
  const templates = entries.filter(({ clientPort }) => clientPort === 0);
  const ipvs = entries.filter(({ clientPort }) => clientPort !== 0);
  const isTrackedRead = !hasIpvs || client !== undefined;
  const flows = (
    isTrackedRead ? await conntrack.listFlows(protocol, { destination, destinationPort }) : []
  ).filter(({ source }) => client === undefined || source === client);
  return {
    templates: templates.slice(0, maxListed).map(remembered),
    ipvs: ipvs.slice(0, maxListed).map(remembered),
    conntrack: flows.slice(0, maxListed).map(tracked),
    ...unansweredIn(ipvs),
    isTruncated: [templates, ipvs, flows].some(({ length }) => length > maxListed),
  };
}

/**
 * The kernel sets the timeout to 60 seconds at each SYN of the client. A client whose
 * entry expires within this time has waited for at least 2 seconds.
 */
const unansweredExpirySeconds = 58;

/** Counts the unanswered connections of each real server. Exported for tests. */
export function unansweredIn(entries: readonly IpvsConnection[]): Pick<Connections, "unanswered"> {
  const waiting = entries.filter(
    ({ state, expiresInSeconds }) =>
      state === "SYN_RECV" && expiresInSeconds <= unansweredExpirySeconds,
  );
  if (waiting.length === 0) return {};
  const byServer = Map.groupBy(waiting, ({ realServer: { address, port } }) =>
    hostPort(address, port),
  );
  const unanswered = [...byServer].map(([realServer, { length: connections }]) => ({
    ...{ realServer, connections },
  }));
  return { unanswered };
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
