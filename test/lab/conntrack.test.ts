/** Tests the conntrack client on a kernel, in addition to the contract suite. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { systemClock } from "../../src/base/clock.ts";
import { ConntrackClient } from "../../src/kernel/conntrack/client.ts";
import { nativeSocket } from "../../src/netlink/native-socket.ts";
import type { Flow } from "../../src/state/flow.ts";
import { shell, withNetworkNamespace } from "../support/netns/network-namespace.ts";

const FLOW_COUNT = 2000;

const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-flows-"));
after(() => rmSync(folder, { recursive: true }));

/** UDP flows from port 10000 and higher ports to 10.96.0.10:53, in `conntrack -R` input format. */
const flowLines = Array.from({ length: FLOW_COUNT }, (_, index) => {
  const port = 10_000 + index;
  return (
    `-I -p udp -t 60 -s 192.0.2.1 --sport ${port} -d 10.96.0.10 --dport 53 ` +
    `-r 10.244.1.5 --reply-port-src 5353 -q 192.0.2.1 --reply-port-dst ${port}\n`
  );
});
writeFileSync(join(folder, "flows"), flowLines.join(""));

/** Shell lines that create those flows and one TCP flow. */
const manyFlows = [
  `conntrack -R ${join(folder, "flows")} > /dev/null 2>&1`,
  "conntrack -I -p tcp -t 60 --state ESTABLISHED 2> /dev/null" +
    " -s 192.0.2.1 -d 10.96.0.1 --sport 4001 --dport 443",
];

function inNamespace(
  setUp: readonly string[],
  body: (conntrack: ConntrackClient) => Promise<void>,
): () => Promise<void> {
  return () =>
    withNetworkNamespace("conntrack", setUp, async () => {
      const conntrack = new ConntrackClient({ shim: nativeSocket, clock: systemClock });
      try {
        await body(conntrack);
      } finally {
        conntrack.close();
      }
    });
}

function countOf(protocol: string): number {
  return Number(shell(`conntrack -L -p ${protocol} 2>/dev/null | wc -l`));
}

describe("conntrack", () => {
  it(
    "deletes exactly half of many flows, and no TCP flow",
    inNamespace(manyFlows, async (conntrack) => {
      const flows = await timed("list", () => conntrack.listUdpFlows("IPv4"));
      assert.equal(flows.length, FLOW_COUNT);
      const odd = flows.filter(({ sourcePort }) => sourcePort % 2 === 1);
      assert.equal(await timed("delete", () => conntrack.remove(odd)), FLOW_COUNT / 2);
      const rest = await conntrack.listUdpFlows("IPv4");
      assert.equal(rest.length, FLOW_COUNT / 2);
      assert.ok(rest.every(({ sourcePort }) => sourcePort % 2 === 0));
      assert.equal(countOf("tcp"), 1);
    }),
  );

  it(
    "does not delete a new flow that replaced the requested one",
    inNamespace(manyFlows, async (conntrack) => {
      const [flow] = (await conntrack.listUdpFlows("IPv4")) as [Flow];
      const older = { ...flow, id: ((flow.id ?? 0) ^ 1) >>> 0 };
      assert.equal(await conntrack.remove([older]), 0);
      assert.equal(countOf("udp"), FLOW_COUNT);
    }),
  );
});

async function timed<T>(step: string, run: () => Promise<T>): Promise<T> {
  const startMs = performance.now();
  const result = await run();
  console.log(`# ${step}: ${Math.round(performance.now() - startMs)} ms`);
  return result;
}
