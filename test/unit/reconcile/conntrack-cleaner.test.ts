import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { EndpointRecord } from "../../../src/api/objects.ts";
import { errno } from "../../../src/base/errno.ts";
import type { Flow, FlowSelection } from "../../../src/state/flow.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { dnsFlow } from "../../support/flows.ts";
import { Bench } from "../../support/reconcile-bench.ts";
import { endpointRecord, ip, portRecord, serviceRecord } from "../../support/records.ts";

const ports = [{ name: "dns", protocol: "UDP", port: 5353 }] as const;
const dns = serviceRecord({ ports: [portRecord({ name: "dns", protocol: "UDP", port: 53 })] });
const web = serviceRecord({ name: "default/web", clusterIps: [ip("10.96.0.20")] });
const first = endpointRecord("10.244.2.11");
const second = endpointRecord("10.244.2.12");

function flow(overrides: Partial<Flow> = {}): Flow {
  return dnsFlow({ replySource: first.address, ...overrides });
}

describe("ConntrackCleaner", () => {
  let bench: Bench;
  /** Kernel requests: `family`, or `family address:port by address:port`. */
  let asked: string[];

  beforeEach(() => {
    bench = new Bench(new FakeKernel(), {
      drain: { tcpDeadlineSeconds: 0, udpDeadlineSeconds: 0 },
    });
    asked = [];
    const { conntrack } = bench.kernel;
    const list = conntrack.listUdpFlows.bind(conntrack);
    conntrack.listUdpFlows = (family, selection) => {
      asked.push(selection === undefined ? family : `${family} ${selectionText(selection)}`);
      return list(family, selection);
    };
  });

  function put(...endpoints: readonly EndpointRecord[]): void {
    bench.put(dns, endpoints, { ports });
  }

  async function sync(): Promise<readonly string[]> {
    asked.splice(0);
    await bench.sync();
    return [...asked];
  }

  it("checks the flows of every virtual server at first, and later only the affected ones", async () => {
    put(first);
    bench.put({ ...dns, name: "default/b", clusterIps: [ip("10.96.0.11")] }, [first], { ports });
    assert.deepEqual(await sync(), ["IPv4 10.96.0.10:53", "IPv4 10.96.0.11:53"]);
    put(first, second);
    assert.deepEqual(await sync(), []);
    put(second);
    assert.deepEqual(await sync(), ["IPv4 10.96.0.10:53 by 10.244.2.11:5353"]);
    bench.drop(dns.name);
    assert.deepEqual(await sync(), ["IPv4 10.96.0.10:53"]);
  });

  it("checks everything again if the first check failed", async () => {
    put(first);
    bench.kernel.operations.failWhere(({ action }) => action === "list-udp-flows", errno.EPERM, 1);
    assert.deepEqual(await sync(), ["IPv4 10.96.0.10:53"]);
    assert.equal(bench.reconciler.needsDrainCheck, true);
    assert.deepEqual(await sync(), ["IPv4 10.96.0.10:53"]);
    assert.deepEqual(await sync(), []);
    assert.equal(bench.reconciler.needsDrainCheck, false);
  });

  it("deletes flows at startup that an earlier program left", async () => {
    const stale = flow({ replySource: second.address });
    bench.kernel.conntrack.flows = [flow(), { ...stale, sourcePort: 4001 }];
    put(first);
    const { conntrackPasses, changes } = await bench.sync();
    assert.deepEqual(
      conntrackPasses.map(({ family, deletedCount }) => [family, deletedCount]),
      [["IPv4", 1]],
    );
    assert.equal(changes.get("conntrack-delete"), 1);
    assert.deepEqual(bench.kernel.conntrack.flows, [flow()]);
  });

  it("deletes flows from before the virtual server or its first real server", async () => {
    bench.put(web);
    await sync();
    const untranslated = flow({ replySource: ip("10.96.0.10"), replySourcePort: 53 });
    bench.kernel.conntrack.flows = [untranslated];
    put(first);
    assert.deepEqual(await sync(), ["IPv4 10.96.0.10:53"]);
    assert.deepEqual(bench.kernel.conntrack.flows, []);
    put();
    await sync();
    bench.kernel.conntrack.flows = [untranslated];
    put(second);
    assert.deepEqual(await sync(), ["IPv4 10.96.0.10:53"]);
    assert.deepEqual(bench.kernel.conntrack.flows, []);
  });

  it("ignores other protocols", async () => {
    put(first);
    bench.put(web, [first]);
    await sync();
    bench.put(web, []);
    assert.deepEqual(await sync(), []);
    bench.drop(web.name);
    assert.deepEqual(await sync(), []);
  });

  it("requests all flows once instead of sending many requests", async () => {
    const many = Array.from({ length: 65 }, (_, index) => endpointRecord(`10.244.3.${index + 1}`));
    put(first, ...many);
    await sync();
    const flows = [flow(), flow({ sourcePort: 4001, replySource: ip("10.244.3.7") })];
    bench.kernel.conntrack.flows = flows;
    put(first, ...many.slice(64));
    assert.equal((await sync()).length, 64);
    assert.deepEqual(bench.kernel.conntrack.flows, [flow()]);
    put(first, ...many);
    await sync();
    bench.kernel.conntrack.flows = flows;
    put(first);
    assert.deepEqual(await sync(), ["IPv4"]);
    assert.deepEqual(bench.kernel.conntrack.flows, [flow()]);
  });
});

function selectionText({ destination, destinationPort, answeredBy }: FlowSelection): string {
  const by = answeredBy === undefined ? "" : ` by ${answeredBy.address}:${answeredBy.port}`;
  return `${destination}:${destinationPort}${by}`;
}
