/** Tests `kube-ipvs plan` in userspace mode: the listeners to open, and the rules to write. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Plan, planView } from "../../../../src/answer/plan.ts";
import type { IpAddress } from "../../../../src/base/ip.ts";
import { planOf as ofDaemon } from "../../../../src/daemon/print-plan.ts";
import {
  listenerObject,
  sctpPortsOf,
} from "../../../../src/daemon/userspace/print-userspace-plan.ts";
import type { ListeningSocket } from "../../../../src/kernel/listening-sockets.ts";
import { ChangeTracker } from "../../../../src/model/change-tracker.ts";
import type { Holders } from "../../../../src/plan/claims/claim.ts";
import { ClaimAges } from "../../../../src/plan/claims/claim-ages.ts";
import { type ClaimMemory, noClaimMemory } from "../../../../src/plan/claims/claim-memory.ts";
import { PortAdmission } from "../../../../src/plan/claims/port-admission.ts";
import { toServerKey } from "../../../../src/state/virtual-server.ts";
import { portalRules } from "../../../../src/userspace/portal-rules.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { MemorySource, type NamedObject } from "../../../support/memory-source.ts";
import { type ApiObject, endpointSlice, service, servicePort } from "../../../support/objects.ts";
import { serviceListeners } from "../../../support/plan-at-once.ts";
import { planUserspace, type UserspacePlan } from "../../../support/plan-userspace.ts";
import { familyOptions, ip, planOptions } from "../../../support/records.ts";
import { wantedListeners } from "../../../support/wanted-listeners.ts";

const options = planOptions({ families: new Map([["IPv4", familyOptions("IPv4")]]) });
const objects = [
  service({ type: "NodePort", ports: [servicePort({ nodePort: 30_080 })] }),
  endpointSlice(),
];
const listening = (port: number): ListeningSocket => ({
  protocol: "TCP",
  address: ip("0.0.0.0"),
  port,
  uid: 0,
});

async function trackerOf(given: readonly ApiObject[]): Promise<ChangeTracker> {
  const tracker = new ChangeTracker(0);
  const source = new MemorySource();
  source.apply(...(given as readonly unknown[] as readonly NamedObject[]));
  await source.start({
    onService: (previous, current) => tracker.noteService(previous, current),
    onEndpointSlice: (previous, current) => tracker.noteSlice(previous, current),
    onNode: () => {},
    onSynced: () => {},
    onRefusal: () => {},
  });
  return tracker;
}

interface Stage {
  readonly given?: readonly ApiObject[];
  readonly kernel?: FakeKernel;
  readonly sockets?: readonly ListeningSocket[];
  readonly bindAddress?: string;
  readonly held?: Holders;
  readonly claimMemory?: ClaimMemory;
}

async function planOf({
  given = objects,
  kernel,
  sockets = [],
  bindAddress = "0.0.0.0",
  held = new Map(),
  claimMemory = noClaimMemory(),
}: Stage): Promise<UserspacePlan & { readonly answer: Plan }> {
  const tracker = await trackerOf(given);
  const record = { held, claims: claimMemory };
  const wanted = await wantedListeners(tracker, options, record, kernel?.iptables);
  const config = { bindAddress: ip(bindAddress) };
  const plan = await planUserspace(wanted, { kernel, sockets, families: ["IPv4"] }, config);
  const listeners = plan.toOpen.map(listenerObject);
  const ofRules = await ofDaemon(plan.rules, { manualWeights: "keep" }, undefined);
  return { ...plan, answer: { ...ofRules, listeners, sctpPorts: sctpPortsOf(tracker) } };
}

function textOf({ answer }: { readonly answer: Plan }): string {
  return planView.blocks(answer, false).join("\n");
}

/**
 * The kernel state of a daemon whose listener has port 40000. `addresses` defaults to all addresses. The node port is
 * always included.
 */
async function served(addresses?: readonly IpAddress[]): Promise<FakeKernel> {
  const kernel = new FakeKernel();
  const tracker = await trackerOf(objects);
  const record = tracker.service("default/web") ?? assert.fail();
  const [wanted = assert.fail()] = serviceListeners(
    record,
    tracker.slicesOf("default/web"),
    options,
  );
  const localPorts = { port: 40_000, portOnLoopback: 40_000 };
  const led = { ...wanted, addresses: addresses ?? wanted.addresses };
  const { chains, jumps } = portalRules("IPv4", [{ wanted: led, localPorts }]);
  await kernel.iptables.apply("IPv4", [
    ...chains.map((chain) => ({ kind: "chain-write", chain }) as const),
    ...jumps.map((jump) => ({ kind: "jump-insert", jump }) as const),
  ]);
  return kernel;
}

describe("the plan of a start in userspace mode", () => {
  it("contains listeners to open, the addresses that lead to them, and the chains to write", async () => {
    const plan = await planOf({ kernel: new FakeKernel() });
    const lines = textOf(plan).split("\n");
    assert.deepEqual(lines.slice(0, 4), [
      "Listeners: 1",
      "  + TCP 0.0.0.0 at a free port for 10.96.0.10:80, node port 30080  # missing, service default/web:http",
      "",
      "iptables chains and jumps: 10",
    ]);
    assert.ok(
      lines.includes(
        "  ~ IPv4 nat KUBE-PORTALS-CONTAINER (0 -> 1 rules)  # missing, service default/web",
      ),
      lines.join("\n"),
    );
    const { changes, listeners } = plan.answer;
    assert.equal(changes.length, 10);
    assert.deepEqual(listeners, [
      {
        text: "+ TCP 0.0.0.0 at a free port for 10.96.0.10:80, node port 30080",
        ...{
          protocol: "TCP",
          host: "0.0.0.0",
          service: "default/web",
          portName: "default/web:http",
        },
        ...{ addresses: ["10.96.0.10:80"], nodePort: 30_080 },
      },
    ]);
  });

  it("names no Service for a chain with rules of several", async () => {
    const given = [...objects, service({ name: "other", clusterIps: ["10.96.0.11"] })];
    const lines = textOf(await planOf({ given, kernel: new FakeKernel() })).split("\n");
    for (const [chain, end] of [
      ["KUBE-PORTALS-HOST (0 -> 2", "# missing"],
      ["KUBE-NODEPORT-HOST (0 -> 1", "# missing, service default/web"],
    ] as const) {
      const line = lines.find((one) => one.includes(chain)) ?? assert.fail(lines.join("\n"));
      assert.ok(line.endsWith(end), line);
    }
  });

  it("leads an address to the first claim in the record", async () => {
    const spec = { externalIPs: ["203.0.113.7"] };
    const metadata = { creationTimestamp: "2026-02-02T00:00:00Z" };
    const young = service({ name: "young", clusterIps: ["10.96.0.11"], spec, metadata });
    const claimOfYoung = "TCP 203.0.113.7:80 default/young 1769990400";
    const ages = new ClaimAges({ seen: new Map([[claimOfYoung, 5]]), refused: new Set() }, () => 9);
    const claimMemory = { ages, admission: new PortAdmission(ages, () => []), keep() {} };
    const plan = await planOf({
      given: [service({ spec }), young],
      kernel: new FakeKernel(),
      claimMemory,
    });
    const line = textOf(plan)
      .split("\n")
      .find((one) => one.includes("203.0.113.7"));
    assert.match(line ?? "", /default\/young:http/);
  });

  it("leads an address to its owner in the record", async () => {
    const spec = { externalIPs: ["203.0.113.7"] };
    const metadata = { creationTimestamp: "2026-02-02T00:00:00Z" };
    const young = service({ name: "young", clusterIps: ["10.96.0.11"], spec, metadata });
    const given = [service({ spec }), young];
    const holder = { service: "default/young", createdAtSeconds: 1_769_990_400 } as const;
    const linesOf = async (held: Holders): Promise<readonly string[]> => {
      const lines = textOf(await planOf({ given, kernel: new FakeKernel(), held })).split("\n");
      return lines
        .filter((line) => line.includes("203.0.113.7"))
        .map((line) => line.split("# ")[1] ?? "");
    };
    assert.deepEqual(await linesOf(new Map()), ["missing, service default/web:http"]);
    const held = new Map([[toServerKey("TCP 203.0.113.7:80"), holder]]);
    assert.deepEqual(await linesOf(held), ["missing, service default/young:http"]);
  });

  it("is empty if a daemon already has all listeners and rules", async () => {
    const plan = await planOf({ kernel: await served(), sockets: [listening(40_000)] });
    assert.equal(textOf(plan), "No changes.");
    assert.deepEqual([plan.toOpen, plan.rules.changes], [[], []]);
  });

  it("contains a listener with its node port, but no listener if another Service owns all its addresses", async () => {
    const other = service({ name: "other" });
    const holder = { service: "default/other", createdAtSeconds: 1_767_225_600 } as const;
    const held = new Map([[toServerKey("TCP 10.96.0.10:80"), holder]]);
    const missing = async (web: ApiObject): Promise<readonly string[]> => {
      const kernel = await served([]);
      const sockets = [listening(40_000)];
      const plan = await planOf({ given: [web, endpointSlice(), other], kernel, sockets, held });
      return plan.toOpen.map(({ wanted }) => wanted.portName);
    };
    const [atNodePort = assert.fail()] = objects;
    assert.deepEqual(await missing(atNodePort), ["default/other:http"]);
    assert.deepEqual(await missing(service()), ["default/other:http"]);
  });

  it("contains listeners and rules if the existing rules lead to no socket", async () => {
    const plan = await planOf({ kernel: await served() });
    assert.equal(plan.toOpen.length, 1);
    assert.deepEqual(
      plan.rules.changes.map((change) => change.kind === "chain-write" && change.chain.name),
      [
        "KUBE-PORTALS-CONTAINER",
        "KUBE-PORTALS-HOST",
        "KUBE-NODEPORT-CONTAINER",
        "KUBE-NODEPORT-HOST",
        "KUBE-NODEPORT-NON-LOCAL",
      ],
    );
  });

  it("contains only listeners on node ports without iptables", async () => {
    const bindAddress = "127.0.0.1";
    const plan = await planOf({ bindAddress });
    assert.equal(
      textOf(plan),
      "Listeners: 1\n  + TCP 127.0.0.1:30080  # missing, service default/web:http\n\n" +
        "1 change would be made, so plan exits with 2.",
    );
    const there = { ...listening(30_080), address: ip(bindAddress) };
    assert.equal(textOf(await planOf({ bindAddress, sockets: [there] })), "No changes.");
  });

  it("names addresses that are not served", async () => {
    const ports = [servicePort({ name: "sctp", protocol: "SCTP" })];
    const plan = await planOf({ given: [service({ ports })] });
    assert.equal(
      textOf(plan),
      "No changes.\n\nNot served: default/web:sctp (userspace mode does not support SCTP)",
    );
  });
});
