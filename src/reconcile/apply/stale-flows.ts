/**
 * Tracked UDP flows that lead nowhere. UDP has no end of connection: a client that keeps its source port
 * keeps its conntrack entry, and with it a real server that is gone, for as long as it sends. Pure.
 */
import { hostPort } from "../../base/ip.ts";
import { type Flow, servedDestination } from "../../state/flow.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";

/** Keys of the real servers that may answer for a virtual server, by its key; empty: nobody. */
export type AllowedAnswers = ReadonlyMap<string, ReadonlySet<string>>;

/**
 * Picks the flows to one of the virtual servers whose answers come from nobody it has. That includes
 * flows that were never translated, because the virtual server had nobody when they began. Address and
 * port must both be the virtual server's: a flow that merely uses the same port number is not touched.
 */
export function staleFlows(flows: readonly Flow[], allowed: AllowedAnswers): readonly Flow[] {
  return flows.filter((flow) => {
    const { protocol, destinationPort: port } = flow;
    const key = virtualServerKey({ protocol, address: servedDestination(flow.destination), port });
    const answers = allowed.get(key);
    return answers !== undefined && !answers.has(hostPort(flow.replySource, flow.replySourcePort));
  });
}
