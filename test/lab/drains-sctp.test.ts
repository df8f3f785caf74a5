/**
 * Removes real servers while SCTP associations are open, with the built program, real pods and an external client.
 */
import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { after, afterEach, before, describe, it } from "node:test";
import { LabNode } from "../support/lab-node.ts";
import { type ApiObject, endpoint, endpointSlice, service } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { ip } from "../support/records.ts";
import { Association, startSctpPod } from "../support/sctp-traffic.ts";

const pods = [
  { name: "pod-1", address: "10.244.1.10" },
  { name: "pod-2", address: "10.244.1.20" },
] as const;
const clusterIp = "10.96.0.10";
const sctp = { protocol: "SCTP", address: ip(clusterIp), port: 80 } as const;

/** How long IPVS remembers an association after a graceful shutdown. */
const closedMs = 60_000;

/** The Service's endpoints: the pods at these positions. */
function web(...places: readonly (0 | 1)[]): readonly ApiObject[] {
  const ports = [{ name: "diameter", protocol: "SCTP", port: 80, targetPort: 8080 }];
  const slicePorts = [{ name: "diameter", protocol: "SCTP", port: 8080 }];
  const endpoints = places.map((place) => endpoint(pods[place].address, { nodeName: "node-1" }));
  return [service({ ports }), endpointSlice({ endpoints, ports: slicePorts })];
}

describe("a removed SCTP real server", () => {
  const children: ChildProcess[] = [];
  let node: LabNode;

  before(async () => {
    node = await LabNode.build(pods);
    for (const { name } of pods) children.push(await startSctpPod(name, 8080));
  });
  afterEach(() => node.clear());
  after(async () => {
    for (const child of children) child.kill("SIGKILL");
    await node.destroy();
  });

  /** Opens an association to pod-1, then replaces pod-1 with pod-2. */
  async function drainingWith(flags: readonly string[]): Promise<Association> {
    node.apply(...web(0));
    await node.start(flags);
    const association = await Association.open(clusterIp, 80);
    assert.equal(await association.ask("before"), "pod-1 before");
    node.apply(...web(1));
    await node.hasWeights(sctp, "pod-1 0, pod-2 1");
    return association;
  }

  it("keeps its association, receives no new one, and is deleted when IPVS forgets the association", async () => {
    const association = await drainingWith([]);
    const newcomer = await Association.open(clusterIp, 80);
    assert.equal(await newcomer.ask("I am new"), "pod-2 I am new");
    assert.equal(await association.ask("still here"), "pod-1 still here");
    await newcomer.close();
    await association.close();
    await node.hasWeights(sctp, "pod-2 1", closedMs + patienceMs);
    await node.program.prints(/"Real server drain ended" .*SCTP.* reason="idle"/);
  });

  it("is reset at the TCP deadline", async () => {
    const association = await drainingWith(["--kube-ipvs-tcp-drain-deadline=3s"]);
    await node.hasWeights(sctp, "pod-2 1");
    await node.program.prints(/"Real server drain ended" .*SCTP.* reason="deadline"/);
    association.kill();
    const next = await Association.open(clusterIp, 80);
    assert.equal(await next.ask("who"), "pod-2 who");
    await next.close();
  });
});
