import type { Flow } from "../../src/state/flow.ts";
import { ip } from "./records.ts";

/** A client's DNS question to a cluster IP, answered by an endpoint. */
export function dnsFlow(overrides: Partial<Flow> = {}): Flow {
  return {
    protocol: "UDP",
    source: ip("192.0.2.1"),
    sourcePort: 4000,
    destination: ip("10.96.0.10"),
    destinationPort: 53,
    replySource: ip("10.244.1.5"),
    replySourcePort: 5353,
    ...overrides,
  };
}
