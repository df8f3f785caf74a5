/** Steps that migration guides must never contain, parts that each guide must have, and the labels that they set. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readManifests } from "../support/container/pod.ts";
import { commandsOf } from "../support/documents/guide-commands.ts";
import { readGuides } from "../support/documents/guides.ts";
import { chartPath, leastValues, presetValues, readChartFile, renderChart } from "./chart.ts";
import { daemonSetsOf, proxyLabel, runsOn } from "./placement.ts";

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
  const takeover = /\(\.\.\/migrate\.md#roll-out\)|deploy\/roll-out start|rolling-update/;
  const test = /\(\.\.\/migrate\.md#roll-out\)|--instance-group GROUP && deploy\/roll-out test /;

  for (const { path, text } of migrations) {
    const [forth = "", back = ""] = text.split("## Roll back");

    it(`installs kube-ipvs before kube-proxy is removed, tests each node, and describes the rollback: ${path}`, () => {
      const [installed, taken] = [forth.search(install), forth.search(takeover)];
      assert.ok(
        installed >= 0 && installed < taken,
        `installed at ${installed}, taken at ${taken}`,
      );
      assert.match(forth.replaceAll(/\\\n\s*/g, ""), test);
      // kops replaces the nodes, so the label applies only to new ones.
      assert.match(
        back,
        /deploy\/roll-out back|^nodeLabels: \{ kube-ipvs\.io\/proxy: kube-proxy \}$/m,
      );
    });

    const preset = /presets\/\w+\.yaml/.exec(forth)?.[0];
    if (
      preset !== undefined &&
      JSON.stringify(readChartFile(preset)).includes('"removeLeftovers":true')
    ) {
      it(`cleans nodes before kube-proxy returns in another mode: ${path}`, () => {
        assert.match(back, /deploy\/roll-out back --clean/);
        // With START_KUBE_PROXY, roll-out would also return a wave that fails.
        if (!/STOP_KUBE_PROXY=/.test(forth)) assert.match(forth, /roll-out\), with `--clean`\./);
      });
    }
  }

  it("exists for each kind of cluster", () => assert.ok(migrations.length >= 7));
});

describe("a node with the label that a guide or deploy/roll-out sets", () => {
  /** The DaemonSet that runs there. Undefined if none does. */
  const expected = new Map([
    ["kube-proxy", undefined],
    ["kube-ipvs", "kube-ipvs"],
    ["clean-up", "kube-ipvs-clean-up"],
  ]);
  const script = readFileSync(join(import.meta.dirname, "../../deploy/roll-out"), "utf8");
  const labeled = [
    ...[...script.matchAll(/label_nodes ((?!none)[a-z][a-z-]+) /g)].map(([, value]) => value),
    ...guides.flatMap(({ text }) =>
      [...text.matchAll(new RegExp(`${proxyLabel}[=:] ?([a-z-]+)`, "g"))].map(([, value]) => value),
    ),
  ];
  const cleanUp = readManifests("clean-up");
  const installations = [
    ...["kubeadm", "k3s", "replace-kube-proxy"].map(
      (name) => [`overlay ${name}`, [...readManifests(name), ...cleanUp]] as const,
    ),
    ["chart", renderChart(leastValues).objects ?? []] as const,
    ...readdirSync(join(chartPath, "presets")).map(
      (name) => [`preset ${name}`, renderChart(presetValues(name)).objects ?? []] as const,
    ),
  ];

  it("matches the node selectors of the DaemonSets", () => {
    assert.deepEqual(new Set(labeled), new Set(expected.keys()));
  });

  for (const [name, objects] of installations) {
    it(`runs only the DaemonSet that it should run: ${name}`, () => {
      for (const [label, daemonSet] of expected) {
        const running = daemonSetsOf(objects).filter((one) => runsOn(one, label));
        assert.deepEqual(
          running.map(({ metadata }) => metadata.name),
          daemonSet === undefined ? [] : [daemonSet],
          label,
        );
      }
    });
  }
});
