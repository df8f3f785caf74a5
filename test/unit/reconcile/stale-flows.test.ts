import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type HostPort, hostPort } from "../../../src/base/ip.ts";
import { staleFlows } from "../../../src/reconcile/kinds/stale-flows.ts";
import type { Flow } from "../../../src/state/flow.ts";
import { toServerKey } from "../../../src/state/virtual-server.ts";
import { dnsFlow } from "../../support/flows.ts";
import { ip } from "../../support/records.ts";

const allowed = new Map([
  [toServerKey("UDP 10.96.0.10:53"), new Set([hostPort("10.244.1.5", 5353)])],
  [toServerKey("UDP 192.168.10.11:30053"), new Set([hostPort("10.244.1.5", 5353)])],
  [toServerKey("UDP 10.96.0.66:53"), new Set<HostPort>()],
  [toServerKey("UDP [fd00:96::a]:53"), new Set([hostPort("fd00:244::5", 5353)])],
]);

const cases: readonly { readonly name: string; readonly flow: Flow; readonly isStale: boolean }[] =
  [
    { name: "keeps a flow that a real server answers", flow: dnsFlow(), isStale: false },
    {
      name: "deletes a flow whose real server is gone",
      flow: dnsFlow({ replySource: ip("10.244.1.6") }),
      isStale: true,
    },
    {
      name: "deletes a flow whose real server now has a different port",
      flow: dnsFlow({ replySourcePort: 53 }),
      isStale: true,
    },
    {
      name: "deletes a flow that was never translated",
      flow: dnsFlow({ replySource: ip("10.96.0.10"), replySourcePort: 53 }),
      isStale: true,
    },
    {
      name: "deletes every flow to a virtual server without real servers",
      flow: dnsFlow({ destination: ip("10.96.0.66") }),
      isStale: true,
    },
    {
      name: "keeps a flow to an address that is not a virtual server",
      flow: dnsFlow({ destination: ip("10.96.0.99") }),
      isStale: false,
    },
    {
      name: "keeps a flow that only uses a node port's number",
      flow: dnsFlow({
        destination: ip("203.0.113.1"),
        destinationPort: 30053,
        replySource: ip("203.0.113.1"),
      }),
      isStale: false,
    },
    {
      name: "also deletes an IPv6 flow",
      flow: dnsFlow({
        destination: ip("fd00:96::a"),
        replySource: ip("fd00:244::6"),
      }),
      isStale: true,
    },
  ];

describe("staleFlows", () => {
  for (const { name, flow: given, isStale } of cases) {
    it(name, () => assert.deepEqual(staleFlows([given], allowed), isStale ? [given] : []));
  }
});
