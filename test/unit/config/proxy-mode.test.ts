import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { loadConfig } from "../../../src/config/load-config.ts";
import { load, refusal } from "./loading.ts";

const head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
/** The configuration that kubeadm writes for a cluster in iptables mode. */
const file = `${head}mode: ""\n`;
const kubeProxyProfile = `${file}kubeIpvs: {profile: kube-proxy}\n`;

describe("an empty mode in a file", () => {
  for (const [name, text, flags] of [
    ["written as an empty string", file, {}],
    ["written as null", `${head}mode:\n`, {}],
    ["left out", head, {}],
    ["with an empty flag", file, { "proxy-mode": "" }],
    ["in a configuration to write", file, { "write-config-to": "/out" }],
    ["when preparing a node", file, { "init-only": "true" }],
  ] as const) {
    it(`is rejected, and the error names both choices: ${name}`, () => {
      const path = "proxy-mode" in flags ? "--proxy-mode" : "mode";
      assert.equal(
        refusal(() => load(flags, text)),
        `Invalid configuration: ${path}: must be set: choose ipvs (mode: ipvs, or --proxy-mode=ipvs) to serve Services with IPVS, or iptables (mode: iptables, or --proxy-mode=iptables), which kube-proxy uses if the mode is empty`,
      );
    });
  }

  for (const mode of ["ipvs", "iptables"]) {
    it(`is replaced by ${mode} from the flag`, () => {
      const { config, notices, values } = load({ "proxy-mode": mode }, file);
      assert.deepEqual([notices, values.get("mode"), config.mode], [[], mode, mode]);
    });
  }

  it("does not prevent a clean-up", () => {
    const { command, notices } = load({ cleanup: "true" }, file);
    assert.deepEqual([command, notices], ["clean-up", []]);
  });

  it("does not fail a command that needs no mode", () => {
    const context = { hostname: () => "node-1", readFile: () => file };
    const flags = new Map([["config", ["/config"]]]);
    const { command, notices } = loadConfig(flags, context, { needsMode: false });
    assert.deepEqual([command, notices], ["subcommand", []]);
    const reason = /mode: must be set: choose ipvs/;
    assert.match(
      refusal(() => loadConfig(flags, context, { needsMode: true })),
      reason,
    );
  });

  it("is written as the flag's mode by --write-config-to, with the periods of only that section", () => {
    const flags = { "proxy-mode": "iptables", "write-config-to": "/out" };
    const text = load(flags, file).written?.text ?? "";
    assert.match(text, /^mode: iptables$/m);
    assert.match(text, /^iptables:\n(?: {2}.*\n)* {2}syncPeriod: 30s$/m);
    assert.match(text, /^ipvs:\n(?: {2}.*\n)* {2}syncPeriod: 0s$/m);
  });
});

describe("an empty mode with kubeIpvs.profile: kube-proxy", () => {
  const notice = {
    level: "warn",
    event: "No proxy mode chosen, using iptables",
    keys: {
      reason: "kubeIpvs.profile is kube-proxy, which uses iptables if the mode is empty",
      advice: "To serve Services with IPVS, set mode: ipvs, or pass --proxy-mode=ipvs",
    },
  };

  it("means iptables in a file, and the log says what to set for IPVS", () => {
    const { config, notices } = load({}, kubeProxyProfile);
    assert.deepEqual([config.mode, notices], ["iptables", [notice]]);
  });

  it("means iptables without a file", () => {
    const { config, notices } = load({ "kube-ipvs-profile": "kube-proxy" });
    assert.deepEqual([config.mode, notices], ["iptables", [notice]]);
  });

  it("is replaced by the flag", () => {
    const { config, notices } = load({ "proxy-mode": "ipvs" }, kubeProxyProfile);
    assert.deepEqual([config.mode, notices], ["ipvs", []]);
  });
});

describe("no mode and no file", () => {
  for (const flags of [{}, { "proxy-mode": "" }]) {
    it(`means ipvs, which is logged: ${JSON.stringify(flags)}`, () => {
      const { config, notices } = load(flags);
      assert.equal(config.mode, "ipvs");
      assert.deepEqual(notices, [
        { level: "info", event: "No proxy mode chosen, using ipvs", keys: {} },
      ]);
    });
  }

  it("is not reported for a command that only queries", () => {
    const context = { hostname: () => "node-1", readFile: () => "" };
    assert.deepEqual(loadConfig(new Map(), context, { needsMode: true }).notices, []);
  });
});
