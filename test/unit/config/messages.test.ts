import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ConfigError } from "../../../src/config/config-error.ts";
import { configPath, type FlagInput, load, loadFile, refusal } from "./loading.ts";

/** Tests the text after "Invalid configuration: ". */
describe("the message for an invalid field", () => {
  const cases: readonly (readonly [lines: string, message: string])[] = [
    ["ipvs: {scheduler: 1}", "ipvs.scheduler: 1: must be a string"],
    ["ipvs: {strictARP: maybe}", 'ipvs.strictARP: "maybe": must be true or false'],
    [
      'ipvs: {scheduler: [], syncPeriod: "\\u202e\\ufeff"}',
      'ipvs.scheduler: []: must be a string; ipvs.syncPeriod: "\\u202e\\ufeff": must be a duration string such as "30s"',
    ],
    ["ipvs: {syncPeriod: 30}", 'ipvs.syncPeriod: 30: must be a duration string such as "30s"'],
    [
      "ipvs: {syncPeriod: 30 s}",
      'ipvs.syncPeriod: "30 s": must be a duration string such as "30s"',
    ],
    ["ipvs: {syncPeriod: -1s}", 'ipvs.syncPeriod: "-1s": must be greater than zero'],
    ["ipvs: {tcpTimeout: -1s}", 'ipvs.tcpTimeout: "-1s": must be at least 0'],
    [
      "ipvs: {syncPeriod: 1s, minSyncPeriod: 2s}",
      "ipvs.syncPeriod: must not be shorter than ipvs.minSyncPeriod (2s)",
    ],
    ["ipvs: [1]", "ipvs: [1]: must be an object"],
    [
      "ipvs: {excludeCIDRs: [10.0.0.0/8, 10.0.0.1]}",
      'ipvs.excludeCIDRs: ["10.0.0.0/8","10.0.0.1"]: "10.0.0.1" is not a network (CIDR)',
    ],
    ["iptables: {masqueradeBit: 32}", "iptables.masqueradeBit: 32: must be from 0 to 31"],
    ["iptables: {masqueradeBit: 1.5}", "iptables.masqueradeBit: 1.5: must be an integer"],
    ...["abc", "2000-300", "1-70000", "300-", "-1"].map(
      (text) =>
        [
          `portRange: "${text}"`,
          `portRange: "${text}": must be a port range such as 300-2000`,
        ] as const,
    ),
    [
      "kubeIpvs: {lockName: ../x}",
      'kubeIpvs.lockName: "../x": must be at most 63 letters, digits, dots, hyphens and underscores, the first a letter or a digit',
    ],
    ["oomScoreAdj: -1001", "oomScoreAdj: -1001: must be from -1000 to 1000"],
    ["conntrack: {maxPerCore: -1}", "conntrack.maxPerCore: -1: must be at least 0"],
    ["bindAddress: node-1", 'bindAddress: "node-1": must be an IP address'],
    [
      "healthzBindAddress: localhost:10256",
      'healthzBindAddress: "localhost:10256": must be an IP address with an optional port, such as 0.0.0.0:10256 or [::]:10256',
    ],
    [
      "metricsBindAddress: 127.0.0.1:0",
      'metricsBindAddress: "127.0.0.1:0": must have a port from 1 to 65535',
    ],
    [
      "mode: nftables",
      'mode: "nftables": kube-ipvs supports the proxy modes ipvs, iptables and userspace; for nftables mode, use kube-proxy',
    ],
    [
      "mode: kernelspace",
      'mode: "kernelspace": kube-ipvs supports the proxy modes ipvs, iptables and userspace',
    ],
    [
      "detectLocalMode: Pods",
      'detectLocalMode: "Pods": must be one of ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix',
    ],
    [
      "detectLocalMode: BridgeInterface",
      'detectLocal.bridgeInterface: "": is required for detectLocalMode BridgeInterface',
    ],
    [
      "detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: 'a b'}",
      'detectLocal.interfaceNamePrefix: "a b": must be the name of a network interface, at most 15 bytes',
    ],
    [
      "clusterCIDR: '10.0.0.0/8, fd00::/8'",
      'clusterCIDR: "10.0.0.0/8, fd00::/8": " fd00::/8" is not a network (CIDR)',
    ],
    [
      "clusterCIDR: 10.0.0.0/8,11.0.0.0/8",
      'clusterCIDR: "10.0.0.0/8,11.0.0.0/8": must be one CIDR, or one CIDR per IP family',
    ],
    [
      "nodePortAddresses: [primary, 10.0.0.0/8]",
      'nodePortAddresses: ["primary","10.0.0.0/8"]: primary must be the only entry',
    ],
    [
      "kubeIpvs: {serviceProxyName: 'a,b'}",
      'kubeIpvs.serviceProxyName: "a,b": must be a valid label value',
    ],
    ["nodePortAddresses: 10.0.0.0/8", 'nodePortAddresses: "10.0.0.0/8": must be a list of strings'],
    ["logging: {format: xml}", 'logging.format: "xml": must be one of text, json'],
    ["featureGates: {A: on!}", 'featureGates: {"A":"on!"}: A must be true or false'],
    [
      "kubeIpvs: {foreignVirtualServers: ask}",
      'kubeIpvs.foreignVirtualServers: "ask": must be one of keep, delete',
    ],
    [
      "kubeIpvs: {portRangeMarks: '0xf0f00000'}",
      'kubeIpvs.portRangeMarks: "0xf0f00000": must be a hexadecimal mask of at least 8 adjacent bits, such as 0x3fff0000',
    ],
    [
      "kubeIpvs: {portRangeMarks: '0xff00'}",
      'kubeIpvs.portRangeMarks: "0xff00": must not contain iptables.masqueradeBit (14)',
    ],
    ["hostnameOverride: ' '", 'hostnameOverride: " ": the node\'s name must not be empty'],
  ];
  for (const [lines, message] of cases) {
    it(lines.replaceAll("\n", "; "), () => {
      assert.equal(
        refusal(() => loadFile(lines)),
        `Invalid configuration: ${message}`,
      );
    });
  }
});

describe("the message for an invalid flag", () => {
  const cases: readonly (readonly [flags: FlagInput, message: string])[] = [
    [
      { "proxy-mode": "nftables" },
      '--proxy-mode: "nftables": kube-ipvs supports the proxy modes ipvs, iptables and userspace; for nftables mode, use kube-proxy',
    ],
    [
      { "proxy-mode": "iptables", "kube-ipvs-rules": "nftables" },
      '--kube-ipvs-rules: "nftables": not supported in iptables mode, which needs iptables',
    ],
    [{ "ipvs-sync-period": "0s" }, '--ipvs-sync-period: "0s": must be greater than zero'],
    [{ v: "much" }, '--v: "much": must be an integer'],
    [{ "masquerade-all": "yes" }, '--masquerade-all: "yes": must be true or false'],
    [{ "hostname-override": "  " }, '--hostname-override: "  ": must not be blank'],
    [{ "healthz-port": "x" }, '--healthz-port: "x": must be an integer'],
    [{ "metrics-port": "0" }, "metricsBindAddress: the metrics port must not be 0"],
    [
      { "nodeport-addresses": "10.0.0.1" },
      '--nodeport-addresses: ["10.0.0.1"]: "10.0.0.1" is not a network (CIDR)',
    ],
    [
      { config: "/missing" },
      '--config: "/missing": cannot be read: ENOENT: no such file or directory',
    ],
  ];
  for (const [flags, message] of cases) {
    it(JSON.stringify(flags), () => {
      assert.equal(
        refusal(() => load(flags)),
        `Invalid configuration: ${message}`,
      );
    });
  }

  it("is also produced if a file overrides the flag", () => {
    assert.match(
      refusal(() => loadFile("", { "ipvs-sync-period": "soon" })),
      /--ipvs-sync-period/,
    );
  });
});

describe("the message for an invalid file", () => {
  const cases: readonly (readonly [name: string, text: string, message: string])[] = [
    ["empty", "# nothing\n", `${configPath}: the file is empty`],
    ["a list", "- 1", `${configPath}: must be a KubeProxyConfiguration`],
    [
      "invalid YAML, with line and column",
      "apiVersion: v1\nipvs: {a: [1\nkind: x",
      `${configPath}:3:1: `,
    ],
    [
      "another kind",
      "apiVersion: v1\nkind: ConfigMap",
      'apiVersion: "v1": must be kubeproxy.config.k8s.io/v1alpha1; kind: "ConfigMap": must be KubeProxyConfiguration',
    ],
    ["no kind", "mode: ipvs", "apiVersion: must be kubeproxy.config.k8s.io/v1alpha1; kind: must"],
  ];
  for (const [name, text, message] of cases) {
    it(name, () => {
      const found = refusal(() => load({}, text));
      assert.ok(found.startsWith(`Invalid configuration: ${message}`), found);
    });
  }
});

describe("ConfigError", () => {
  it("reports all problems in the file and the flags together", () => {
    try {
      loadFile("oomScoreAdj: 5000\nipvs: {tcpTimeout: never}", { v: "-1" });
      assert.fail("accepted");
    } catch (error) {
      assert.ok(error instanceof ConfigError);
      assert.deepEqual(
        error.problems.map(({ path }) => path),
        ["ipvs.tcpTimeout", "oomScoreAdj", "--v"],
      );
    }
  });

  it("reports invalid values and violated rules together, once per setting", () => {
    const lines = "ipvs: {syncPeriod: never, minSyncPeriod: 1m}\nclusterCIDR: x";
    assert.equal(
      refusal(() => loadFile(lines, { "hostname-override": " " })),
      'Invalid configuration: ipvs.syncPeriod: "never": must be a duration string such as "30s"; ' +
        '--hostname-override: " ": must not be blank; ' +
        'clusterCIDR: "x": "x" is not a network (CIDR)',
    );
  });

  it("is one short line for every value", () => {
    const message = new ConfigError([
      { path: "mode", value: `a\nb${"x".repeat(999)}`, reason: "bad" },
    ]).message;
    assert.doesNotMatch(message, /\n/);
    assert.ok(message.length < 200);
  });
});
