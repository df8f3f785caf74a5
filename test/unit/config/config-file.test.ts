import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Config } from "../../../src/config/config.ts";
import { load, loadFile } from "./loading.ts";

describe("a field of the file", () => {
  const cases: readonly {
    readonly name: string;
    readonly lines: string;
    readonly want: Partial<Config>;
  }[] = [
    { name: "scheduler", lines: "ipvs: {scheduler: sh}", want: { scheduler: "sh" } },
    { name: "strictARP", lines: "ipvs: {strictARP: true}", want: { strictARP: true } },
    { name: "a boolean of YAML 1.1", lines: "ipvs: {strictARP: yes}", want: { strictARP: true } },
    { name: "syncPeriod", lines: "ipvs: {syncPeriod: 1m30s}", want: { syncPeriodMs: 90_000 } },
    {
      name: "minSyncPeriod",
      lines: "ipvs: {minSyncPeriod: 500ms}",
      want: { minSyncPeriodMs: 500 },
    },
    {
      name: "ipvs timeouts, truncated to seconds",
      lines: "ipvs: {tcpTimeout: 15m0.9s, udpTimeout: 10s}",
      want: { ipvsTimeouts: { tcpSeconds: 900, tcpFinSeconds: 0, udpSeconds: 10 } },
    },
    { name: "masqueradeBit 0", lines: "iptables: {masqueradeBit: 0}", want: { masqueradeMark: 1 } },
    {
      name: "masqueradeBit 31",
      lines: "iptables: {masqueradeBit: 31}",
      want: { masqueradeMark: 0x80000000 },
    },
    {
      name: "the nftables bit is ignored",
      lines: "nftables: {masqueradeBit: 3}",
      want: { masqueradeMark: 0x4000 },
    },
    { name: "oomScoreAdj 0", lines: "oomScoreAdj: 0", want: { oomScoreAdj: 0 } },
    {
      name: "NodeCIDR",
      lines: "detectLocalMode: NodeCIDR",
      want: { detectLocal: { kind: "node-cidr" } },
    },
    {
      name: "BridgeInterface",
      lines: "detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: cni0}",
      want: { detectLocal: { kind: "bridge-interface", name: "cni0" } },
    },
    {
      name: "InterfaceNamePrefix, which ignores clusterCIDR",
      lines:
        "detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: veth}\nclusterCIDR: x",
      want: { detectLocal: { kind: "interface-prefix", prefix: "veth" } },
    },
    {
      name: "nodePortAddresses primary",
      lines: "nodePortAddresses: [primary]",
      want: { nodePortAddresses: { kind: "primary" } },
    },
    {
      name: "an address without a port",
      lines: "healthzBindAddress: 127.0.0.1\nmetricsBindAddress: 'fd00::1'",
      want: {
        healthzBindAddress: { address: "127.0.0.1" as never, port: 10256 },
        metricsBindAddress: { address: "fd00::1" as never, port: 10249 },
      },
    },
    {
      name: "an IPv6 address with a port",
      lines: "healthzBindAddress: '[::]:20256'",
      want: { healthzBindAddress: { address: "::" as never, port: 20256 } },
    },
    {
      name: "hostnameOverride, trimmed and in lower case",
      lines: "hostnameOverride: ' Node-7 '",
      want: { nodeName: "node-7" },
    },
    {
      name: "kube-ipvs's own settings",
      lines:
        "kubeIpvs:\n  foreignVirtualServers: delete\n  tcpDrainDeadline: 0s\n  udpDrainDeadline: 1m\n  manifests: /m\n  lockName: x\n  serviceProxyName: trial",
      want: {
        foreignVirtualServers: "delete",
        drain: { tcpDeadlineSeconds: 0, udpDeadlineSeconds: 60 },
        tcpDrainDeadlineMs: 0,
        udpDrainDeadlineMs: 60_000,
        objectsFrom: { kind: "manifests", folder: "/m" },
        manifests: "/m",
        lockName: "x",
        operatorSocket: "/run/kube-ipvs/x.sock",
        serviceProxyName: "trial",
      },
    },
  ];
  for (const { name, lines, want } of cases) {
    it(name, () => {
      const { config } = loadFile(lines);
      assert.deepEqual(config, { ...loadFile("").config, ...want });
    });
  }
});

describe("a file", () => {
  it("can be JSON", () => {
    const json = { apiVersion: "kubeproxy.config.k8s.io/v1alpha1", kind: "KubeProxyConfiguration" };
    const text = JSON.stringify({ ...json, mode: "ipvs", ipvs: { scheduler: "lc" } });
    assert.equal(load({}, text).config.scheduler, "lc");
  });

  it("causes a warning for unknown fields, with their path and the likely field", () => {
    const { notices } = loadFile(
      "mode: ipvs\nfoo: 1\nipvs: {Scheduler: lc, a: {b: 1}}\nWinKernel: {}",
    );
    const event = "Ignoring unknown configuration field";
    assert.deepEqual(notices, [
      { level: "warn", event, keys: { path: "foo" } },
      { level: "warn", event, keys: { path: "ipvs.Scheduler", meant: "ipvs.scheduler" } },
      { level: "warn", event, keys: { path: "ipvs.a" } },
      { level: "warn", event, keys: { path: "WinKernel", meant: "winkernel" } },
    ]);
  });

  it("causes a warning for settings without effect if they differ from the default", () => {
    const { notices } = loadFile("mode: ipvs\niptables: {syncPeriod: 10s, minSyncPeriod: 1s}");
    const keys = { setting: "iptables.syncPeriod", reason: "applies to iptables mode only" };
    assert.deepEqual(notices, [{ level: "warn", event: "Setting has no effect", keys }]);
  });

  it("causes a warning for settings without effect of any type, and keeps the value for kube-proxy", () => {
    const logging =
      "logging:\n  format: json\n  flushFrequency: -1s\n  vmodule: [{filePattern: a, verbosity: 1}]\n  options: {json: {splitStream: true, infoBufferSize: 64Ki}}";
    const { notices, values } = loadFile(
      `mode: ipvs\nshowHiddenMetricsForVersion: "1.20"\n${logging}`,
    );
    assert.deepEqual(
      notices.map(({ keys }) => keys["setting"]),
      [
        "showHiddenMetricsForVersion",
        "logging.flushFrequency",
        "logging.vmodule",
        "logging.options.json.splitStream",
        "logging.options.json.infoBufferSize",
      ],
    );
    assert.deepEqual(values.get("logging.vmodule"), [{ filePattern: "a", verbosity: 1 }]);
  });

  it("causes no warning for settings without effect that are empty or have the default", () => {
    const lines =
      "clientConnection: {qps: 5, burst: 10}\n" +
      "logging: {vmodule: [], flushFrequency: 5000000000, options: {text: {infoBufferSize: 0}}}";
    assert.deepEqual(loadFile(`mode: ipvs\n${lines}`).notices, []);
  });

  it("causes a warning for a repeated field, of which the last value applies", () => {
    const { config, notices } = loadFile("mode: ipvs\noomScoreAdj: 1\noomScoreAdj: 2");
    assert.equal(config.oomScoreAdj, 2);
    assert.match(notices[0]?.event ?? "", /Duplicate/);
    assert.match(notices[0]?.keys["path"] ?? "", /config\.conf:5$/);
  });
});
