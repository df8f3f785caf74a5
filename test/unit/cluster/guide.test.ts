import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  cleaningCommands,
  migrationSteps,
  operatingCommands,
  upgradeSteps,
} from "../../cluster/guide.ts";

const images = { before: "old", after: "new" };

for (const stepsOf of [migrationSteps, upgradeSteps]) {
  describe(stepsOf.name, () => {
    const steps = stepsOf("node1", images);

    it("takes its commands from the guide, and runs them for one node first", () => {
      assert.ok(steps.some(({ command }) => command.includes("node1")));
      assert.ok(steps.every(({ command }) => !command.includes("NODE")));
    });

    it("ends in the initial state after both nodes were taken over", () => {
      assert.deepEqual(steps[0]?.serving, ["old", "old"]);
      assert.deepEqual(steps.at(-1)?.serving, ["old", "old"]);
      assert.ok(steps.some(({ serving }) => serving?.join() === "new,new"));
    });
  });
}

describe("operatingCommands", () => {
  const names = { node: "node1", zone: "zone1", service: "web", namespace: "shop" };
  const commands = operatingCommands(names);

  it("have no placeholders", () => {
    for (const command of commands) assert.doesNotMatch(command, /NODE|NAME|worker-3|zone=a/);
  });

  it("contain the plugin, the acceptance test, and one shell with the pod's name", () => {
    for (const part of [
      /^kubectl kube-ipvs status --all-nodes$/,
      /^kubectl kube-ipvs --node node1 status$/,
      /^kubectl apply -k deploy\/kustomize\/e2e$/,
      /^POD=.*\n.*exec \$POD -- kube-ipvs explain svc\/web -n shop$/s,
    ])
      assert.equal(commands.filter((command) => part.test(command)).length, 1, String(part));
  });
});

describe("cleaningCommands", () => {
  it("clean the nodes, and remove the labels after the DaemonSets", () => {
    assert.deepEqual(cleaningCommands(), [
      "kubectl apply -k deploy/kustomize/overlays/clean-up",
      "START_KUBE_PROXY='kubectl label node $NODE other-proxy=yes' deploy/roll-out back --clean --all",
      "kubectl -n kube-system delete daemonset kube-ipvs kube-ipvs-clean-up",
      "kubectl label nodes --all kube-ipvs.io/proxy-",
    ]);
  });
});
