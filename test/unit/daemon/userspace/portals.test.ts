/** Tests how the rules that redirect to listeners are maintained and removed. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { errno } from "../../../../src/base/errno.ts";
import { ipFamilies } from "../../../../src/base/ip.ts";
import { Portals } from "../../../../src/daemon/userspace/portals.ts";
import type { RuleChange } from "../../../../src/kernel/kernel.ts";
import { portalRules } from "../../../../src/userspace/portal-rules.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { listenerFor } from "../../userspace/backends.ts";

const web = {
  wanted: listenerFor([], { nodePort: 30_080 }),
  localPorts: { port: 40_001, portOnLoopback: 40_001 },
};
const { jumps } = portalRules("IPv4", []);

let kernel: FakeKernel;
let portals: Portals;

beforeEach(async () => {
  kernel = new FakeKernel();
  portals = new Portals(kernel.iptables, ["IPv4"]);
  await portals.sync([web]);
});

function chains(): readonly string[] {
  return kernel.iptables
    .table("IPv4", "nat")
    .observe()
    .flatMap(({ name, rules }) => (name.startsWith("KUBE-") ? [`${name} ${rules.length}`] : []))
    .toSorted();
}

/** The existing jumps, such as `PREROUTING KUBE-PORTALS-CONTAINER`. */
function standingJumps(): readonly string[] {
  return kernel.iptables
    .table("IPv4", "nat")
    .observe()
    .filter(({ name }) => !name.startsWith("KUBE-"))
    .flatMap(({ name, rules }) => rules.map(({ text }) => `${name} ${text.split(" ").at(-1)}`));
}

const inOrder = [
  "PREROUTING KUBE-PORTALS-CONTAINER",
  "PREROUTING KUBE-NODEPORT-CONTAINER",
  "OUTPUT KUBE-PORTALS-HOST",
  "OUTPUT KUBE-NODEPORT-HOST",
];

async function change(...changes: readonly RuleChange[]): Promise<void> {
  await kernel.iptables.apply("IPv4", changes);
}

describe("the rules of userspace mode", () => {
  it("are known to have been missing, even if the kernel rejected the other family's in the meantime", async () => {
    const both = new Portals(kernel.iptables, ["IPv4", "IPv6"]);
    await both.sync([web]);
    assert.equal(await both.sync([web]), false);
    const emptied: RuleChange = {
      kind: "chain-write",
      chain: { table: "nat", name: "KUBE-PORTALS-HOST", rules: [] },
    };
    for (const family of ipFamilies) await kernel.iptables.apply(family, [emptied]);
    both.forget();
    const end = kernel.operations.failWhere(
      ({ subject }) => subject.startsWith("IPv6"),
      errno.ENOBUFS,
    );
    await assert.rejects(both.sync([web]));
    end();
    assert.equal(await both.sync([web]), true);
    assert.equal(await both.sync([web]), false);
  });

  it("are written once, and later only the changed chains", async () => {
    assert.deepEqual(standingJumps(), inOrder);
    const { iptables } = kernel;
    const applied: number[] = [];
    const counted = {
      observe: iptables.observe.bind(iptables),
      render: iptables.render.bind(iptables),
      apply: (...given: Parameters<typeof iptables.apply>) => {
        applied.push(given[1].length);
        return iptables.apply(...given);
      },
    };
    const restarted = new Portals(counted, ["IPv4"]);
    assert.equal(await restarted.sync([web]), false);
    assert.deepEqual(applied, [], "a start with correct rules writes nothing");
    const withoutNodePort = { ...web, wanted: { ...web.wanted, nodePort: 0 } };
    assert.equal(await restarted.sync([withoutNodePort]), false);
    assert.deepEqual(applied, [2], "the two node port chains");
  });

  it("are restored when they are read again, with jumps in their order", async () => {
    const [, , jump] = jumps;
    assert.ok(jump !== undefined);
    await change(
      { kind: "jump-remove", jump },
      { kind: "chain-write", chain: { table: "nat", name: "KUBE-PORTALS-HOST", rules: [] } },
    );
    assert.equal(await portals.sync([web]), false, "written rules apply until they are forgotten");
    portals.forget();
    assert.equal(await portals.sync([web]), true);
    assert.deepEqual(standingJumps(), inOrder);
    assert.ok(chains().includes("KUBE-PORTALS-HOST 1"));
  });
});
