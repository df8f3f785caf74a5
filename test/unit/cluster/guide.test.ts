import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  cleaningCommands,
  migrationSteps,
  observingCommands,
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

const names = { node: "node1", zone: "zone1", service: "web", namespace: "shop" };

describe("operatingCommands", () => {
  const commands = operatingCommands(names);

  it("have no placeholders, and name only nodes of the cluster", () => {
    for (const command of [...commands, ...observingCommands(names)]) {
      assert.doesNotMatch(command.replaceAll(/\$POD|POD=/g, ""), /[A-Z]{3}|worker-|zone=a/);
      for (const [, name] of command.matchAll(/(?:--node |nodeName=)(\S+)/g))
        assert.equal(name?.replace(/\)$/, ""), "node1");
    }
  });

  it("are run once each", () => {
    assert.equal(new Set(commands).size, commands.length);
  });

  it("contain the plugin, the acceptance test, and one shell with the pod's name", () => {
    for (const part of [
      /^deploy\/kubectl-kube_ipvs --timeout 60 status --all-nodes$/,
      /^kubectl kube-ipvs --timeout 60 status --all-nodes$/,
      /^kubectl kube-ipvs --timeout 60 --node node1 status$/,
      /^kubectl kube-ipvs --timeout 60 compare shop\/web$/,
      /^kubectl -n kube-system exec daemonset\/kube-ipvs -- kube-ipvs sysdump -f - > node.tar.gz$/,
      /^kubectl apply -k deploy\/kustomize\/e2e$/,
      /^POD=.*\n.*exec \$POD -- kube-ipvs explain svc\/web -n shop$/s,
    ])
      assert.equal(commands.filter((command) => part.test(command)).length, 1, String(part));
  });
});

describe("observingCommands", () => {
  it("check one node and preview a takeover", () => {
    const plugin =
      "deploy/kubectl-kube_ipvs --timeout 60 -l k8s-app=kube-ipvs-observe --node node1";
    assert.deepEqual(observingCommands(names), [
      `${plugin} doctor --before-install || [ $? -eq 2 ]`,
      `${plugin} plan || [ $? -eq 2 ]`,
    ]);
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
