import assert from "node:assert/strict";
import { describe } from "node:test";
import type { IpFamily } from "../../src/base/ip.ts";
import type { Conntrack } from "../../src/kernel/kernel.ts";
import type { Flow, FlowSelection } from "../../src/state/flow.ts";
import { dnsFlow } from "../support/flows.ts";
import { contractCase, ip, type OpenContractKernel } from "./contract-kernel.ts";

const ipv6Flow: Flow = dnsFlow({
  source: ip("fd00::1"),
  destination: ip("fd00:96::a"),
  replySource: ip("fd00:244::5"),
});

/** Lists flows without values that only the kernel knows. */
async function listed(
  conntrack: Conntrack,
  family: IpFamily,
  selection?: FlowSelection,
): Promise<readonly Flow[]> {
  const flows = await conntrack.listUdpFlows(family, selection);
  return flows
    .map(({ id: _id, zone: _zone, ...rest }) => rest)
    .toSorted((one, other) => one.sourcePort - other.sourcePort);
}

export function describeConntrackContract(name: string, open: OpenContractKernel): void {
  describe(`${name}: conntrack`, () => {
    contractCase(open, "tracks nothing initially", async ({ conntrack }) => {
      assert.deepEqual(await conntrack.listUdpFlows("IPv4"), []);
      assert.equal(await conntrack.remove([]), 0);
    });

    contractCase(open, "lists UDP flows by family", async ({ conntrack }, contract) => {
      contract.addFlow(dnsFlow());
      contract.addFlow(ipv6Flow);
      contract.addFlow(dnsFlow({ protocol: "TCP", sourcePort: 4001 }));
      assert.deepEqual(await listed(conntrack, "IPv4"), [dnsFlow()]);
      assert.deepEqual(await listed(conntrack, "IPv6"), [ipv6Flow]);
    });

    contractCase(open, "lists only selected flows", async ({ conntrack }, contract) => {
      const [asked, other] = [
        dnsFlow(),
        dnsFlow({ sourcePort: 4001, replySource: ip("10.244.1.6") }),
      ];
      for (const each of [
        ...[asked, other, ipv6Flow],
        dnsFlow({ sourcePort: 4002, destination: ip("10.96.0.11") }),
        dnsFlow({ sourcePort: 4003, destinationPort: 54 }),
        dnsFlow({ sourcePort: 4004, replySourcePort: 53 }),
        dnsFlow({ sourcePort: 4005, protocol: "TCP" }),
        { ...ipv6Flow, sourcePort: 4001, destination: ip("fd00:96::b") },
        { ...ipv6Flow, sourcePort: 4002, destinationPort: 54 },
      ]) {
        contract.addFlow(each);
      }
      const selection = { destination: ip("10.96.0.10"), destinationPort: 53 };
      const toServer = (await listed(conntrack, "IPv4", selection)).map((each) => each.sourcePort);
      assert.deepEqual(toServer, [4000, 4001, 4004]);
      const answeredBy = { address: ip("10.244.1.5"), port: 5353 };
      assert.deepEqual(await listed(conntrack, "IPv4", { ...selection, answeredBy }), [asked]);
      const selection6 = { destination: ip("fd00:96::a"), destinationPort: 53 };
      const answeredBy6 = { address: ip("fd00:244::5"), port: 5353 };
      for (const each of [selection6, { ...selection6, answeredBy: answeredBy6 }]) {
        assert.deepEqual(await listed(conntrack, "IPv6", each), [ipv6Flow]);
      }
    });

    contractCase(open, "removes exactly the given flows", async ({ conntrack }, contract) => {
      for (const sourcePort of [4000, 4001, 4002]) contract.addFlow(dnsFlow({ sourcePort }));
      contract.addFlow(ipv6Flow);
      const flows = await conntrack.listUdpFlows("IPv4");
      const middle = flows.filter(({ sourcePort }) => sourcePort === 4001);
      assert.equal(
        await conntrack.remove([...middle, ...(await conntrack.listUdpFlows("IPv6"))]),
        2,
      );
      const ports = (await listed(conntrack, "IPv4")).map(({ sourcePort }) => sourcePort);
      assert.deepEqual(ports, [4000, 4002]);
      assert.deepEqual(await listed(conntrack, "IPv6"), []);
    });

    contractCase(open, "treats a missing flow as removed", async ({ conntrack }, contract) => {
      contract.addFlow(dnsFlow());
      const flows = await conntrack.listUdpFlows("IPv4");
      assert.equal(await conntrack.remove(flows), 1);
      assert.equal(await conntrack.remove(flows), 0);
    });
  });
}
