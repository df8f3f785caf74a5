import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { gateValues } from "../../../src/config/feature-gates.ts";
import { allFields } from "../../../src/config/fields.ts";
import { readText } from "../../../src/config/read-value.ts";
import { load, loadFile } from "./loading.ts";

describe("the default configuration", () => {
  it("is kube-proxy's, except that the mode is ipvs", () => {
    const { config, command } = load({});
    assert.equal(command, "run");
    assert.deepEqual(config, {
      mode: "ipvs",
      iptablesLocalhostNodePorts: true,
      objectsFrom: { kind: "cluster" },
      clientConnection: { qps: 5, burst: 10 },
      nodeName: "node-from-os",
      bindAddress: "0.0.0.0",
      healthzBindAddress: { address: "0.0.0.0", port: 10256 },
      metricsBindAddress: { address: "127.0.0.1", port: 10249 },
      bindAddressHardFail: false,
      enableProfiling: false,
      detectLocal: { kind: "cluster-cidr", cidrs: [] },
      nodePortAddresses: { kind: "all" },
      scheduler: "rr",
      extraSchedulers: [],
      nodeProcessPorts: "refuse",
      claimsFile: "/var/lib/kube-ipvs/claims.json",
      limits: {
        service: { frontends: 4096, endpoints: 50_000 },
        namespace: { frontends: 100_000, endpoints: 1_000_000 },
      },
      excludeCIDRs: [],
      foreignVirtualServers: "keep",
      strictARP: false,
      ipvsTimeouts: { tcpSeconds: 0, tcpFinSeconds: 0, udpSeconds: 0 },
      runEstimation: "keep",
      estimatorCpus: "",
      estimatorNice: "",
      trafficMetrics: "none",
      trafficMetricsLimit: 1_000,
      profile: "kube-ipvs",
      secureMetricsBindAddress: undefined,
      secureMetricsCertFile: "",
      secureMetricsKeyFile: "",
      manifests: "",
      tcpDrainDeadlineMs: 900_000,
      udpDrainDeadlineMs: 300_000,
      onePacket: false,
      maxConnections: 0,
      weights: "equal",
      slowStartMs: 0,
      serviceFrontendLimit: 4_096,
      namespaceFrontendLimit: 100_000,
      serviceEndpointLimit: 50_000,
      namespaceEndpointLimit: 1_000_000,
      masqueradeAll: false,
      masqueradeMark: 0x4000,
      syncPeriodMs: 30_000,
      minSyncPeriodMs: 1_000,
      verificationPeriodMs: 30_000,
      drain: { tcpDeadlineSeconds: 900, udpDeadlineSeconds: 300 },
      stateFile: "/run/kube-ipvs/state.json",
      ruleCheckPeriodMs: 10_000,
      relistGuardPercent: 50,
      observeOnly: false,
      manualWeights: "keep",
      answerPing: false,
      masqueradeNodeToLocal: false,
      strictSourceRanges: false,
      localhostNodePorts: false,
      reservedAddresses: "serve",
      unboundAddresses: [],
      conntrack: {
        maxPerCore: 32_768,
        min: 131_072,
        tcpEstablishedTimeoutSeconds: 86_400,
        tcpCloseWaitTimeoutSeconds: 3_600,
        udpTimeoutSeconds: 0,
        udpStreamTimeoutSeconds: 0,
        tcpBeLiberal: false,
      },
      oomScoreAdj: -999,
      logging: { format: "text", verbosity: 0 },
      ignoreRunningKubeProxy: false,
      waitForKubeProxy: false,
      weightRequestPeriodMs: 0,
      removeLeftovers: false,
      removeNotReadyTaint: false,
      stopDelayMs: 0,
      tunnelForwarding: false,
      rules: "auto",
      virtualAddresses: "addresses",
      nodeAddressPeriodMs: 600_000,
      udpTimeoutMs: 250,
      userspaceMaxConnections: 16_384,
      userspaceMaxServiceConnections: 4_096,
      lockName: "kube-ipvs",
      operatorSocket: "/run/kube-ipvs/kube-ipvs.sock",
      outlierEjectionMs: 0,
      featureGates: gateValues(new Map()),
      configReload: false,
    });
  });

  it("is the same with an empty file, except for the pause between syncs", () => {
    const { config } = loadFile("");
    assert.deepEqual(config, { ...load({}).config, minSyncPeriodMs: 0 });
  });

  it("cannot be changed later", () => {
    const { config } = load({});
    assert.throws(() => Object.assign(config.drain, { tcpDeadlineSeconds: 1 }), TypeError);
    assert.throws(() => Object.assign(config, { scheduler: "lc" }), TypeError);
  });
});

describe("the table of fields", () => {
  it("has a parsable default in each row", () => {
    for (const field of allFields) {
      for (const text of [field.default, field.defaultWithoutFile ?? field.default]) {
        assert.ok("value" in readText(field, text), `${field.path}: ${text}`);
      }
    }
  });

  it("names each path and flag once", () => {
    const paths = allFields.map(({ path }) => path);
    const flags = allFields.flatMap(({ flag }) => flag ?? []);
    assert.equal(new Set(paths).size, paths.length);
    assert.equal(new Set(flags).size, flags.length);
  });

  it("has a help line for each flag", () => {
    for (const { flag, help } of allFields) assert.ok(flag === undefined || help !== "", flag);
  });
});
