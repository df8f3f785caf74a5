import type { ServerEndpoint } from "../../api/source.ts";
import { serverKey } from "./node-network.ts";

/** More than any control plane has. */
const maxServers = 256;

/**
 * All servers that `read` ever reported. A Service that takes the one we are connected to keeps the news of its own end
 * away: a name that is looked up differently today frees nothing.
 */
export function rememberServers(
  read: () => readonly ServerEndpoint[],
): () => readonly ServerEndpoint[] {
  const known = new Map<string, ServerEndpoint>();
  return () => {
    for (const server of read()) {
      if (known.size < maxServers) known.set(serverKey(server), server);
    }
    return [...known.values()];
  };
}
