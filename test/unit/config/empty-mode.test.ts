import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { loadConfig } from "../../../src/config/load-config.ts";
import { configPath, type FlagInput, load, refusal } from "./loading.ts";

/** As kubeadm writes it for a cluster of mode iptables. */
const file =
  'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ""\n';
const withoutMode = file.replace('mode: ""\n', "");
const mistake =
  'Invalid configuration: mode: "": means iptables in kube-proxy\'s configuration, and kube-ipvs has mode ipvs only; ' +
  "write mode: ipvs, or pass --proxy-mode=ipvs, to serve with IPVS; otherwise run kube-proxy";

describe("an empty mode in a file", () => {
  for (const [name, text] of [
    ["that says so", file],
    ["that says nothing", withoutMode],
  ] as const) {
    it(`${name} is refused, and the error says what to write`, () => {
      assert.equal(
        refusal(() => load({}, text)),
        mistake,
      );
    });
  }

  it("is refused before the node is prepared", () => {
    assert.equal(
      refusal(() => load({ "init-only": "true" }, file)),
      mistake,
    );
  });

  it("is filled by the flag", () => {
    const { notices, values } = load({ "proxy-mode": "ipvs" }, file);
    assert.deepEqual([notices, values.get("mode")], [[], "ipvs"]);
  });

  it("is refused with a flag that names another mode", () => {
    assert.match(
      refusal(() => load({ "proxy-mode": "iptables" }, file)),
      /--proxy-mode: "iptables": kube-ipvs supports the proxy modes ipvs and userspace/,
    );
  });

  it("does not keep anybody from cleaning up", () => {
    assert.deepEqual(load({ cleanup: "true" }, file).notices, []);
  });

  const harmless: readonly [string, FlagInput][] = [
    ["a written configuration", { "write-config-to": "/out" }],
    ["observing only", { "kube-ipvs-observe-only": "true" }],
  ];
  for (const [name, flags] of harmless) {
    it(`is a warning for ${name}, and a mistake with --strict`, () => {
      const [{ level, event } = {}] = load(flags, file).notices;
      assert.deepEqual([level, event], ["warn", "Proxy mode in the configuration file is empty"]);
      assert.match(
        refusal(() => load({ ...flags, strict: "true" }, file)),
        /mode: Proxy mode in the configuration file is empty/,
      );
    });
  }

  it("is a warning for a command such as plan, which shows what a start with --proxy-mode=ipvs would do", () => {
    const world = { hostname: () => "node-1", readFile: () => file };
    const { command, notices } = loadConfig(
      new Map([["config", [configPath]]]),
      world,
      "subcommand",
    );
    assert.deepEqual(
      [command, notices.map(({ event }) => event)],
      ["subcommand", ["Proxy mode in the configuration file is empty"]],
    );
  });

  it("is written as ipvs by --write-config-to", () => {
    assert.match(load({ "write-config-to": "/out" }, file).written?.text ?? "", /^mode: ipvs$/m);
  });
});

describe("no mode and no file", () => {
  it("is told that ipvs is assumed", () => {
    assert.deepEqual(load({}).notices, [
      { level: "info", event: "No proxy mode chosen, using ipvs", keys: {} },
    ]);
  });
});
