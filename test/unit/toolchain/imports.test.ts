/** The direction of imports in src/. `make lint` checks all files; these cases show what the table rejects. */
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { findForbiddenImports, mayImport } from "../../../toolchain/lint/imports.ts";

const rejected: readonly (readonly [string, string])[] = [
  ["plan/a.ts", "../kernel/kernel.ts"],
  ["plan/a.ts", "../netlink/transport.ts"],
  ["plan/a.ts", "../reconcile/diff.ts"],
  ["plan/a.ts", "../api/decode/service.ts"],
  ["plan/a.ts", "node:fs"],
  ["plan/a.ts", "yaml"],
  ["userspace/a.ts", "../kernel/ipvs/client.ts"],
  ["model/a.ts", "../userspace/balancer.ts"],
  ["endpoint-slices/a.ts", "../api/objects.ts"],
  ["endpoint-slices/a.ts", "node:crypto"],
  ["endpoint-controller/a.ts", "../model/topology.ts"],
  ["model/a.ts", "../endpoint-slices/objects.ts"],
  ["model/a.ts", "../plan/planner.ts"],
  ["model/a.ts", "node:crypto"],
  ["state/a.ts", "../model/endpoints.ts"],
  ["base/a.ts", "../state/rule.ts"],
  ["base/a.ts", "node:net"],
  ["reconcile/a.ts", "../kernel/ipvs/client.ts"],
  ["reconcile/a.ts", "../api/objects.ts"],
  ["reconcile/a.ts", "node:timers"],
  ["netlink/a.ts", "../kernel/ipvs/codec.ts"],
  ["netlink/a.ts", "netlink"],
  ["kernel/ipvs/a.ts", "../../api/objects.ts"],
  ["kernel/ipvs/a.ts", "../../model/endpoints.ts"],
  ["kernel/ipvs/a.ts", "../../plan/planner.ts"],
  ["kernel/ipvs/a.ts", "netlink/dist/constants.js"],
  ["kernel/a.ts", "../../native-shim/index.ts"],
  ["api/a.ts", "../model/endpoints.ts"],
  ["api/a.ts", "execa"],
  ["config/a.ts", "../plan/options.ts"],
  ["metrics/a.ts", "../daemon/run.ts"],
  ["daemon/a.ts", "../cli/program.ts"],
  ["daemon/a.ts", "../main.ts"],
  ["daemon/a.ts", "../../test/support/objects.ts"],
  ["daemon/a.ts", "../doctor/doctor.ts"],
  ["kernel/a.ts", "../doctor/doctor.ts"],
  ["doctor/a.ts", "../reconcile/reconciler.ts"],
  ["doctor/checks/a.ts", "../read/mounts.ts"],
  ["doctor/checks/a.ts", "../open-node.ts"],
  ["doctor/checks/a.ts", "node:fs"],
  ["explain/a.ts", "../reconcile/reconciler.ts"],
  ["answer/a.ts", "../daemon/operator/routes.ts"],
  ["explain/packet/a.ts", "../read/read-network.ts"],
  ["explain/packet/a.ts", "../../plan/sets.ts"],
  ["daemon/a.ts", "../explain/explain.ts"],
  ["top/a.ts", "../reconcile/reconciler.ts"],
  ["kernel/a.ts", "../top/rows.ts"],
  ["sysdump/a.ts", "../daemon/start.ts"],
  ["e2e/a.ts", "../kernel/kernel.ts"],
  ["e2e/a.ts", "../daemon/start.ts"],
  ["daemon/a.ts", "../e2e/run.ts"],
  ["cli/a.ts", "../kernel/kernel.ts"],
];

const permitted: readonly (readonly [string, string])[] = [
  ["plan/a.ts", "node:util"],
  ["plan/a.ts", "../model/topology.ts"],
  ["plan/a.ts", "../state/rule.ts"],
  ["plan/a.ts", "./sets.ts"],
  ["userspace/a.ts", "../plan/planner.ts"],
  ["userspace/a.ts", "../kernel/kernel.ts"],
  ["userspace/a.ts", "node:net"],
  ["endpoint-slices/a.ts", "node:util"],
  ["endpoint-slices/a.ts", "../base/ip.ts"],
  ["endpoint-controller/a.ts", "../api/connection.ts"],
  ["model/a.ts", "../api/objects.ts"],
  ["state/a.ts", "../base/ip.ts"],
  ["reconcile/a.ts", "../kernel/kernel.ts"],
  ["netlink/a.ts", "netlink/dist/constants.js"],
  ["netlink/a.ts", "../../native-shim/index.ts"],
  ["kernel/ipvs/a.ts", "../../netlink/transport.ts"],
  ["kernel/iptables/a.ts", "execa"],
  ["kernel/iptables/a.ts", "../../../native-shim/legacy-table.ts"],
  ["api/a.ts", "@kubernetes/client-node"],
  ["metrics/a.ts", "prom-client"],
  ["doctor/a.ts", "../kernel/open-readers.ts"],
  ["doctor/checks/a.ts", "../node.ts"],
  ["answer/a.ts", "../state/traffic.ts"],
  ["explain/a.ts", "../kernel/open-readers.ts"],
  ["top/a.ts", "../kernel/open-readers.ts"],
  ["sysdump/a.ts", "../kernel/open-readers.ts"],
  ["e2e/a.ts", "../answer/answers.ts"],
  ["e2e/a.ts", "@kubernetes/client-node"],
  ["cli/a.ts", "commander"],
];

describe("imports", () => {
  for (const [file, specifier] of rejected) {
    it(`rejects in ${file}: ${specifier}`, () => assert.equal(mayImport(file, specifier), false));
  }
  for (const [file, specifier] of permitted) {
    it(`allows in ${file}: ${specifier}`, () => assert.equal(mayImport(file, specifier), true));
  }

  it("finds imports of all forms, and files in folders without a row", () => {
    const src = mkdtempSync(join(tmpdir(), "kube-ipvs-imports-"));
    try {
      mkdirSync(join(src, "plan"));
      mkdirSync(join(src, "new"));
      const lines = [
        'import { a } from "../kernel/kernel.ts";',
        'import {\n  type B,\n} from "../netlink/transport.ts";',
        'import "../main.ts";',
        'export { c } from "../api/source.ts";',
        'const d = await import("node:fs");',
        'import { e } from "../base/ip.ts";',
      ];
      writeFileSync(join(src, "plan/sets.ts"), `${lines.join("\n")}\n`);
      writeFileSync(join(src, "new/sets.ts"), 'import { e } from "../base/ip.ts";\n');
      const found = findForbiddenImports(src).map((line) => line.split(":")[0]);
      assert.deepEqual(found, [
        "src/new/sets.ts must not import ../base/ip.ts",
        "src/plan/sets.ts must not import ../kernel/kernel.ts",
        "src/plan/sets.ts must not import ../netlink/transport.ts",
        "src/plan/sets.ts must not import ../main.ts",
        "src/plan/sets.ts must not import ../api/source.ts",
        "src/plan/sets.ts must not import node",
      ]);
    } finally {
      rmSync(src, { recursive: true, force: true });
    }
  });
});
