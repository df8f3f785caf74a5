import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { allChecks } from "../../../src/e2e/checks/all-checks.ts";
import { helpText, readOptions } from "../../../src/e2e/options.ts";

describe("the command line of kube-ipvs-e2e", () => {
  it("uses the environment's kubeconfig, and defaults otherwise", () => {
    assert.deepEqual(readOptions([], { KUBECONFIG: "/root/.kube/config" }), {
      kubeconfig: "/root/.kube/config",
      namespace: "kube-ipvs-e2e",
      daemonNamespace: "kube-system",
      daemonSelector: "k8s-app in (kube-ipvs,kube-proxy)",
      nodeCount: 3,
      nodes: [],
      skipped: new Set(),
      format: "table",
      patienceMs: 60_000,
      onlyConnects: false,
    });
  });

  it("can only check the connection", () => {
    assert.equal(readOptions(["--only-connect"], {})?.onlyConnects, true);
  });

  it("accepts a list of nodes", () => {
    assert.deepEqual(readOptions(["--node", "node-1,node-2"], {})?.nodes, ["node-1", "node-2"]);
  });

  it("rejects invalid values, and lists valid ones", () => {
    const wrong: readonly (readonly [string, RegExp])[] = [
      ["--nodes=0", /^Error: --nodes 0: must be a whole number above 0$/],
      ["--output=yaml", /^Error: --output yaml: must be table or json$/],
      [
        "--skip=restarts",
        /^Error: --skip restarts: no such check; the checks are daemons, .*restart/,
      ],
      ["--wat", /Unknown option '--wat'/],
    ];
    for (const [flag, message] of wrong) assert.throws(() => readOptions([flag], {}), message);
  });

  it("names each check in its help, in at most 80 columns", () => {
    for (const line of helpText.split("\n")) assert.ok(line.length <= 80, line);
    assert.equal(readOptions(["--help"], {}), undefined);
    for (const { name, promise } of allChecks) {
      assert.match(helpText, new RegExp(`^ +${name} +${promise}$`, "m"));
    }
  });
});
