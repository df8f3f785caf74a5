/** Tests how the rules that redirect to listeners are maintained and removed. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { RuleChange } from "../../../../src/kernel/kernel.ts";
import { portalRules } from "../../../../src/userspace/portal-rules.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { Portals } from "../../../support/portals.ts";
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
  portals = new Portals(kernel, ["IPv4"]);
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

/** The number of changed chains and jumps. */
async function writtenBy(of: Portals, listener: typeof web): Promise<number> {
  const { plan, failures, rejected } = await of.sync([listener]);
  assert.deepEqual([failures, rejected], [[], []]);
  return plan.changes.length;
}

async function change(...changes: readonly RuleChange[]): Promise<void> {
  await kernel.iptables.apply("IPv4", changes);
}

describe("the rules of userspace mode", () => {
  it("are written once, and later only the changed chains", async () => {
    assert.deepEqual(standingJumps(), inOrder);
    const restarted = new Portals(kernel, ["IPv4"]);
    assert.equal(await writtenBy(restarted, web), 0, "a start with correct rules writes nothing");
    const withoutNodePort = { ...web, wanted: { ...web.wanted, nodePort: 0 } };
    assert.equal(await writtenBy(restarted, withoutNodePort), 2, "the two node port chains");
  });

  it("are restored when they are read again, with jumps in their order", async () => {
    const [, , jump] = jumps;
    assert.ok(jump !== undefined);
    await change(
      { kind: "jump-remove", jump },
      { kind: "chain-write", chain: { table: "nat", name: "KUBE-PORTALS-HOST", rules: [] } },
    );
    assert.equal(await writtenBy(portals, web), 0, "written rules apply until they are forgotten");
    portals.forget();
    assert.ok((await writtenBy(portals, web)) > 0);
    assert.deepEqual(standingJumps(), inOrder);
    assert.ok(chains().includes("KUBE-PORTALS-HOST 1"));
  });
});
