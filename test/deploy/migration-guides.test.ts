/** Steps that migration guides must never contain, and parts that each guide must have. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { commandsOf } from "../support/documents/guide-commands.ts";
import { readGuides } from "../support/documents/guides.ts";

const readme = readFileSync(join(import.meta.dirname, "../../README.md"), "utf8");
const guides = [{ path: "../README.md", text: readme }, ...readGuides()];
const migrations = guides.filter(
  ({ path }) => path.startsWith("migrate/") && path !== "migrate/beside-nftables.md",
);

describe("commands in guides", () => {
  const forbidden: readonly (readonly [string, RegExp])[] = [
    ["delete kube-proxy from all nodes at once", /delete (?:daemonset|ds)[ /]kube-proxy/],
    ["delete the EKS add-on's pods", /delete-addon(?!.*--preserve)/],
    ["bind kube-ipvs to labeled nodes", /^(?:helm|kubectl) .*nodeSelector/],
    ["apply manifests whose image no registry has", /apply -f deploy\/manifests/],
  ];
  for (const [what, pattern] of forbidden) {
    it(`do not ${what}`, () => {
      for (const { path, text } of guides) {
        const wrong = commandsOf(text).filter((command) => pattern.test(command));
        assert.deepEqual(wrong, [], path);
      }
    });
  }
});

describe("a migration guide", () => {
  const install = /helm install kube-ipvs |apply -k deploy\/kustomize\/overlays\/(?!observe)/;
  /** Commands that stop kube-proxy on a node. */
  const takeover =
    /\(\.\.\/migrate\.md#roll-out\)|deploy\/roll-out start|systemctl restart|rolling-update/;
  const test = /\(\.\.\/migrate\.md#roll-out\)|kube-ipvs-e2e --node NODE/;

  for (const { path, text } of migrations) {
    it(`installs kube-ipvs before kube-proxy is removed, tests each node, and describes the rollback: ${path}`, () => {
      const [forth = "", back = ""] = text.split("## Roll back");
      const [installed, taken] = [forth.search(install), forth.search(takeover)];
      assert.ok(
        installed >= 0 && installed < taken,
        `installed at ${installed}, taken at ${taken}`,
      );
      assert.match(forth, test);
      assert.match(
        back,
        /deploy\/roll-out back --all|kube-ipvs\.io\/proxy=kube-proxy|as in step 1/,
      );
    });
  }

  it("exists for each kind of cluster", () => assert.ok(migrations.length >= 7));
});
