import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { featureGates, gateValues } from "../../../src/config/feature-gates.ts";
import { load, loadFile, refusal } from "./loading.ts";

const gatesOn = (gates: Record<string, boolean>): readonly string[] =>
  [...gateValues(new Map(Object.entries(gates)))].flatMap(([name, isOn]) => (isOn ? [name] : []));

describe("the table of feature gates", () => {
  it("names each gate once, with its effect or why it has none", () => {
    const names = featureGates.map(({ name }) => name);
    assert.equal(new Set(names).size, names.length);
    for (const { name, effect, noEffect } of featureGates) {
      assert.ok((effect === undefined) !== (noEffect === undefined), name);
    }
  });
});

describe("a feature gate", () => {
  it("has its default unless it is set", () => {
    assert.ok(gatesOn({}).includes("AllowServiceExternalIPs"));
    assert.ok(!gatesOn({ AllowServiceExternalIPs: false }).includes("AllowServiceExternalIPs"));
    assert.ok(!gatesOn({}).includes("NativeHistograms"));
  });

  it("follows AllAlpha or AllBeta unless it is set itself", () => {
    assert.ok(gatesOn({ AllAlpha: true }).includes("NativeHistograms"));
    assert.ok(!gatesOn({ AllBeta: false }).includes("ComponentFlagz"));
    const mixed = gatesOn({ AllBeta: false, ComponentFlagz: true });
    assert.ok(mixed.includes("ComponentFlagz") && !mixed.includes("ComponentStatusz"));
    assert.ok(gatesOn({ AllAlpha: false, AllBeta: false }).includes("AllowServiceExternalIPs"));
  });

  it("is ignored with a warning if it is unknown, in the file and as a flag", () => {
    const { config, notices } = loadFile(
      "mode: ipvs\nfeatureGates: {TopologyAwarehints: true, GateOf138: false, ComponentFlagz: false}",
    );
    assert.equal(config.featureGates.get("ComponentFlagz"), false);
    assert.equal(config.featureGates.has("GateOf138"), false);
    assert.deepEqual(
      notices.map(({ level, event, keys }) => [level, event, keys]),
      [
        [
          "warn",
          "Ignoring feature gates unknown to kube-ipvs",
          {
            setting: "featureGates[TopologyAwarehints, GateOf138]",
            meant: "TopologyAwareHints",
          },
        ],
      ],
    );
    assert.deepEqual(
      load({ "feature-gates": "GateOf138=true", "proxy-mode": "ipvs" }).notices.map(
        ({ keys }) => keys["setting"],
      ),
      ["--feature-gates[GateOf138]"],
    );
  });

  it("is rejected by --strict if it is unknown", () => {
    const lines = "mode: ipvs\nfeatureGates: {TopologyAwarehints: true, GateOf138: false}";
    assert.equal(
      refusal(() => loadFile(lines, { strict: "true" })),
      "Invalid configuration: featureGates[TopologyAwarehints, GateOf138]: " +
        "Ignoring feature gates unknown to kube-ipvs; did you mean TopologyAwareHints?",
    );
  });

  it("is reported if it has no effect; gates of other components share one line", () => {
    const gates =
      "{TopologyAwareHints: true, AllowServiceExternalIPs: false, WinDSR: true, AppArmor: true}";
    const { config, notices } = loadFile(`mode: ipvs\nfeatureGates: ${gates}`);
    assert.equal(config.featureGates.get("AllowServiceExternalIPs"), false);
    assert.deepEqual(
      notices.map(({ keys }) => keys["setting"]),
      ["featureGates[TopologyAwareHints]", "featureGates[WinDSR, AppArmor]"],
    );
    assert.deepEqual(loadFile("mode: ipvs\nfeatureGates: {}").notices, []);
  });
});
