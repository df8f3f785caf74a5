/**
 * Tests how the addresses that iptables mode's rules serve at startup are found. The relist guard compares the first
 * lists with these addresses.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import { readServedByRules } from "../../../../src/daemon/node/served-by-rules.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { iptablesModeRules } from "../../../support/iptables-mode.ts";

it("reads the addresses of Services and endpoints from kube-proxy's rules", async () => {
  const nat = iptablesModeRules.slice(
    iptablesModeRules.indexOf("*nat"),
    iptablesModeRules.indexOf("*filter"),
  );
  const lines = [...nat.matchAll(/^-A (\S+) (.*)$/gm)];
  const byChain = Map.groupBy(lines, ([, name = ""]) => name);
  const chains = [...byChain].map(([name, ofChain]) => {
    const rules = ofChain.map(([, , text = ""]) => ({ text }));
    return { table: "nat", name, rules } as const;
  });
  const served = await readServedByRules("iptables", { observe: async () => chains }, ["IPv4"]);
  assert.deepEqual([...served.services], ["10.96.0.10"]);
  assert.deepEqual([...served.endpoints], ["10.244.1.10"]);
});

it("finds nothing on a node without rules", async () => {
  const { services, endpoints } = await readServedByRules("iptables", new FakeKernel().iptables, [
    "IPv4",
  ]);
  assert.deepEqual([services.size, endpoints.size], [0, 0]);
});

it("rejects if rules cannot be read, because lists could not be compared with them", async () => {
  const { iptables, operations } = new FakeKernel();
  operations.failWhere(({ action }) => action === "observe", new Error("cannot read"));
  await assert.rejects(readServedByRules("iptables", iptables, ["IPv4"]), /cannot read/);
});
