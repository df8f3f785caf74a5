import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { loadConfig } from "../../../src/config/load-config.ts";
import { load } from "./loading.ts";

/** As kubeadm writes it for a cluster of mode iptables. */
const file =
  'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ""\n';
const withoutMode = file.replace('mode: ""\n', "");

describe("an empty mode in a file", () => {
  for (const [name, text] of [
    ["that says so", file],
    ["that says nothing", withoutMode],
  ] as const) {
    it(`${name} means iptables, as to kube-proxy, and the log says what to write for IPVS`, () => {
      const { config, notices } = load({}, text);
      assert.equal(config.mode, "iptables");
      assert.deepEqual(notices, [
        {
          level: "warn",
          event: "No proxy mode chosen, using iptables",
          keys: {
            reason:
              "an empty mode in a configuration file means iptables, as it does to kube-proxy",
            advice: "To serve with IPVS, write mode: ipvs, or pass --proxy-mode=ipvs",
          },
        },
      ]);
    });
  }

  for (const mode of ["ipvs", "iptables"]) {
    it(`is filled by the flag with ${mode}`, () => {
      const { config, notices, values } = load({ "proxy-mode": mode }, file);
      assert.deepEqual([notices, values.get("mode"), config.mode], [[], mode, mode]);
    });
  }

  it("says nothing when cleaning up", () => {
    assert.deepEqual(load({ cleanup: "true" }, file).notices, []);
  });

  it("is written as iptables by --write-config-to, with that section's periods alone", () => {
    const text = load({ "write-config-to": "/out" }, file).written?.text ?? "";
    assert.match(text, /^mode: iptables$/m);
    assert.match(text, /^iptables:\n(?: {2}.*\n)* {2}syncPeriod: 30s$/m);
    assert.match(text, /^ipvs:\n(?: {2}.*\n)* {2}syncPeriod: 0s$/m);
  });
});

describe("no mode and no file", () => {
  it("is warned that ipvs is assumed", () => {
    const { config, notices } = load({});
    assert.equal(config.mode, "ipvs");
    assert.deepEqual(notices, [
      { level: "info", event: "No proxy mode chosen, using ipvs", keys: {} },
    ]);
  });

  it("is no news to who calls a command", () => {
    const world = { hostname: () => "node-1", readFile: () => "" };
    assert.deepEqual(loadConfig(new Map(), world, "subcommand").notices, []);
  });
});
