import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { featureGates, gateValues } from "../../../src/config/feature-gates.ts";
import { otherGateNames } from "../../../src/config/gate-names.ts";
import { load, loadFile, refusal } from "./loading.ts";

const gatesOn = (gates: Record<string, boolean>): readonly string[] =>
  [...gateValues(new Map(Object.entries(gates)))].flatMap(([name, isOn]) => (isOn ? [name] : []));

describe("the table of feature gates", () => {
  it("names each gate once, and says what it does or why it does nothing", () => {
    const names = featureGates.map(({ name }) => name);
    assert.equal(new Set(names).size, names.length);
    assert.deepEqual(
      names.filter((name) => otherGateNames.has(name)),
      [],
    );
    for (const { name, effect, noEffect } of featureGates) {
      assert.ok((effect === undefined) !== (noEffect === undefined), name);
    }
  });

  it("knows the gates of all components from 1.28 on", () => {
    for (const name of [
      "AppArmor",
      "GRPCContainerProbe",
      "WatchList",
      "WinDSR",
      "GenericWorkload",
    ]) {
      assert.ok(otherGateNames.has(name), name);
    }
    for (const name of otherGateNames) assert.match(name, /^[A-Z][A-Za-z0-9]+$/);
  });
});

describe("a feature gate", () => {
  it("has its default, unless it is given", () => {
    assert.ok(gatesOn({}).includes("AllowServiceExternalIPs"));
    assert.ok(!gatesOn({ AllowServiceExternalIPs: false }).includes("AllowServiceExternalIPs"));
    assert.ok(!gatesOn({}).includes("LoggingAlphaOptions"));
  });

  it("follows AllAlpha or AllBeta, unless it is given itself", () => {
    assert.ok(gatesOn({ AllAlpha: true }).includes("LoggingAlphaOptions"));
    assert.ok(!gatesOn({ AllBeta: false }).includes("ComponentFlagz"));
    const mixed = gatesOn({ AllBeta: false, ComponentFlagz: true });
    assert.ok(mixed.includes("ComponentFlagz") && !mixed.includes("ComponentStatusz"));
    assert.ok(gatesOn({ AllAlpha: false, AllBeta: false }).includes("AllowServiceExternalIPs"));
  });

  it("is ignored with a warning if it is unknown, in file and flag", () => {
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
          "Ignoring unknown feature gate",
          { setting: "featureGates[TopologyAwarehints]", meant: "TopologyAwareHints" },
        ],
        ["warn", "Ignoring unknown feature gate", { setting: "featureGates[GateOf138]" }],
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
      "Invalid configuration: featureGates[TopologyAwarehints]: Ignoring unknown feature gate; " +
        "did you mean TopologyAwareHints?; featureGates[GateOf138]: Ignoring unknown feature gate",
    );
  });

  it("that changes nothing is reported; those of other components in one line", () => {
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

  it("LoggingAlphaOptions lets logging.options be given", () => {
    const flags = { "log-json-split-stream": "true", "log-text-info-buffer-size": "64Ki" };
    assert.equal(
      refusal(() => load(flags)),
      "Invalid configuration: --log-json-split-stream: true: requires the feature gate LoggingAlphaOptions; " +
        '--log-text-info-buffer-size: "64Ki": requires the feature gate LoggingAlphaOptions',
    );
    load({ ...flags, "feature-gates": "LoggingAlphaOptions=true" });
  });
});
