/** Finds other network namespaces that have virtual servers, if /proc shows a process in them. */

import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { attempt } from "../../base/attempt.ts";
import type { OtherNamespace } from "../node.ts";

/** Lists the other network namespaces that have virtual servers. Throws if /proc cannot be read. */
export function readOtherNamespaces(procPath = "/proc"): readonly OtherNamespace[] {
  const seen = new Set([readlinkSync(`${procPath}/self/ns/net`)]);
  const found: OtherNamespace[] = [];
  for (const entry of readdirSync(procPath)) {
    if (!/^\d+$/.test(entry)) continue;
    const path = `${procPath}/${entry}`;
    const namespace = attempt(() => readlinkSync(`${path}/ns/net`));
    if (namespace === undefined || seen.has(namespace)) continue;
    seen.add(namespace);
    const virtualServerCount = countVirtualServers(
      attempt(() => readFileSync(`${path}/net/ip_vs`, "latin1")),
    );
    if (virtualServerCount === 0) continue;
    found.push({ pid: Number(entry), command: commandOf(path), virtualServerCount });
  }
  return found;
}

/** Virtual servers are lines such as `TCP  0A600001:0050 rr`. Lines of real servers begin with `  ->`. */
function countVirtualServers(listing = ""): number {
  return listing.match(/^(?:TCP|UDP|SCTP|FWM) /gm)?.length ?? 0;
}

function commandOf(path: string): string {
  const name = attempt(() => readFileSync(`${path}/comm`, "latin1").trim()) ?? "?";
  return name.replace(/[^\x20-\x7e]/g, "?");
}
