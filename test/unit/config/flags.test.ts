import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Config } from "../../../src/config/config.ts";
import { type FlagInput, load, loadFile } from "./loading.ts";

describe("a flag", () => {
  const cases: readonly {
    readonly name: string;
    readonly flags: FlagInput;
    readonly want: Partial<Config>;
  }[] = [
    {
      name: "kubeconfig and master",
      flags: { kubeconfig: "/k", master: "https://10.0.0.1:6443" },
      want: {
        objectsFrom: {
          kind: "cluster",
          kubeconfigPath: "/k",
          masterUrl: "https://10.0.0.1:6443",
        },
      },
    },
    {
      name: "manifests, before a cluster",
      flags: { manifests: "./m", kubeconfig: "/k" },
      want: { manifests: "./m", objectsFrom: { kind: "manifests", folder: "./m" } },
    },
    { name: "masquerade-all", flags: { "masquerade-all": "T" }, want: { masqueradeAll: true } },
    {
      name: "nodeport-addresses, given twice",
      flags: { "nodeport-addresses": ["10.0.0.0/8,192.168.0.0/16", "fd00::/8"] },
      want: {
        nodePortAddresses: {
          kind: "cidrs",
          cidrs: [
            { address: "10.0.0.0" as never, prefixLength: 8 },
            { address: "192.168.0.0" as never, prefixLength: 16 },
            { address: "fd00::" as never, prefixLength: 8 },
          ],
        },
      },
    },
    {
      name: "a repeated scalar, of which the last value applies",
      flags: { "ipvs-scheduler": ["lc", "wrr"] },
      want: { scheduler: "wrr" },
    },
    {
      name: "an explicit zero for the minimum",
      flags: { "ipvs-min-sync-period": "0s" },
      want: { minSyncPeriodMs: 0 },
    },
    { name: "an empty address changes nothing", flags: { "healthz-bind-address": "" }, want: {} },
    {
      name: "healthz-port 0: no server",
      flags: { "healthz-port": "0" },
      want: { healthzBindAddress: undefined as never },
    },
    {
      name: "healthz-port with an address that has a port",
      flags: { "healthz-port": "7", "healthz-bind-address": "127.0.0.1:8" },
      want: { healthzBindAddress: { address: "127.0.0.1" as never, port: 8 } },
    },
    {
      name: "metrics-port with an address without a port",
      flags: { "metrics-port": "7", "metrics-bind-address": "0.0.0.0" },
      want: { metricsBindAddress: { address: "0.0.0.0" as never, port: 7 } },
    },
    { name: "v", flags: { v: "4" }, want: { logging: { format: "text", verbosity: 4 } } },
  ];
  for (const { name, flags, want } of cases) {
    it(name, () => {
      const expected: Record<string, unknown> = { ...load({}).config, ...want };
      if (expected["healthzBindAddress"] === undefined) delete expected["healthzBindAddress"];
      assert.deepEqual(load(flags).config, expected);
    });
  }

  it("cleanup causes no message about the mode, because leftovers of IPVS mode are removed in every mode", () => {
    assert.deepEqual(load({ cleanup: "true" }).notices, []);
  });

  it("cleanup selects another command", () => {
    assert.equal(load({ cleanup: "true" }).command, "clean-up");
    assert.equal(load({ cleanup: "false" }).command, "run");
  });

  it("without effect is accepted with a warning", () => {
    const flags = {
      "proxy-mode": "ipvs",
      "iptables-sync-period": "10s",
      "boot-id-file": "/x",
      "feature-gates": "AppArmor=true, WinDSR=false",
    };
    assert.deepEqual(
      load(flags).notices.map(({ event, keys }) => `${event}: ${keys["setting"]}`),
      [
        "Setting has no effect: --boot-id-file",
        "Setting has no effect: --iptables-sync-period",
        "Ignoring feature gates unknown to kube-ipvs: --feature-gates[AppArmor, WinDSR]",
      ],
    );
  });
});

describe("a folder of manifests", () => {
  const cases: readonly {
    readonly name: string;
    readonly flags: FlagInput;
    readonly idle: readonly string[];
  }[] = [
    { name: "alone", flags: { manifests: "./m" }, idle: [] },
    {
      name: "makes kubeconfig and master ineffective, which is reported",
      flags: { manifests: "./m", kubeconfig: "/k", master: "https://10.0.0.1:6443" },
      idle: ["--kubeconfig", "--master"],
    },
    { name: "that is empty is ignored", flags: { manifests: "", kubeconfig: "/k" }, idle: [] },
  ];
  for (const { name, flags, idle } of cases) {
    it(name, () => {
      assert.deepEqual(
        load({ "proxy-mode": "ipvs", ...flags }).notices,
        idle.map((setting) => ({
          level: "warn",
          event: "Setting has no effect",
          keys: { setting, reason: "objects are read from --manifests" },
        })),
      );
    });
  }
});

describe("flags with a file", () => {
  const file = "mode: ipvs\nipvs: {scheduler: lc}\nhostnameOverride: a\nlogging: {verbosity: 1}";

  it("apply if kube-proxy applies them, and always for kube-ipvs' own flags", () => {
    const { config, notices } = loadFile(file, {
      "hostname-override": "B",
      v: "5",
      "logging-format": "json",
      "kube-ipvs-foreign-virtual-servers": "delete",
    });
    assert.equal(config.nodeName, "b");
    assert.deepEqual(config.logging, { format: "json", verbosity: 5 });
    assert.equal(config.foreignVirtualServers, "delete");
    assert.deepEqual(notices, []);
  });

  it("that are deprecated are reported and apply only without a file", () => {
    const flags = { "healthz-port": "0" };
    const deprecated = {
      level: "warn",
      event: "Flag is deprecated",
      keys: { flag: "--healthz-port", instead: "--healthz-bind-address" },
    };
    assert.deepEqual(load({ "proxy-mode": "ipvs", ...flags }).notices, [deprecated]);
    const { config, notices } = loadFile(file, flags);
    assert.equal(config.healthzBindAddress?.port, 10_256);
    const event = "Ignoring flag because a configuration file is set";
    assert.deepEqual(notices, [
      deprecated,
      { level: "warn", event, keys: { flag: "--healthz-port" } },
    ]);
  });

  it("are otherwise ignored and reported", () => {
    const { config, notices } = loadFile(file, {
      "ipvs-scheduler": "sh",
      "masquerade-all": "true",
    });
    assert.equal(config.scheduler, "lc");
    assert.equal(config.masqueradeAll, false);
    const event = "Ignoring flag because a configuration file is set";
    assert.deepEqual(notices, [
      { level: "warn", event, keys: { flag: "--ipvs-scheduler" } },
      { level: "warn", event, keys: { flag: "--masquerade-all" } },
    ]);
  });
});
