import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseYamlDocuments } from "../../../src/base/yaml.ts";
import { allFields } from "../../../src/config/fields.ts";
import { type FlagInput, load, refusal } from "./loading.ts";

function written(flags: FlagInput, file?: string): string {
  const { command, written } = load({ ...flags, "write-config-to": "/out" }, file);
  assert.equal(command, "write-config");
  assert.equal(written?.path, "/out");
  return written.text;
}

const defaultText = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 10
  contentType: application/vnd.kubernetes.protobuf
  kubeconfig: ""
  qps: 5
clusterCIDR: ""
configSyncPeriod: 15m0s
conntrack:
  maxPerCore: 32768
  min: 131072
  tcpBeLiberal: false
  tcpCloseWaitTimeout: 1h0m0s
  tcpEstablishedTimeout: 24h0m0s
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ClusterCIDR
enableProfiling: false
healthzBindAddress: 0.0.0.0:10256
hostnameOverride: ""
iptables:
  localhostNodePorts: true
  masqueradeAll: false
  masqueradeBit: 14
  minSyncPeriod: 0s
  syncPeriod: 0s
ipvs:
  excludeCIDRs: null
  minSyncPeriod: 1s
  scheduler: ""
  strictARP: false
  syncPeriod: 30s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
kind: KubeProxyConfiguration
`;

describe("--write-config-to", () => {
  it("writes every field with its value, as kube-proxy's YAML", () => {
    const text = written({});
    assert.ok(text.startsWith(defaultText), text);
    assert.match(text, /^nodePortAddresses: null\noomScoreAdj: -999\nportRange: ""$/m);
    assert.match(text, /^logging:\n {2}flushFrequency: 5s\n {2}format: text\n {2}options:$/m);
    assert.doesNotMatch(text, /featureGates|vmodule|splitStream|windowsRunAsService/);
  });

  it("writes a file that reads back as the same configuration", () => {
    const flags: FlagInput = {
      "bind-address": "fd00::1",
      "cluster-cidr": "10.0.0.0/8,fd00::/8",
      "ipvs-exclude-cidrs": "192.168.7.0/24",
      "ipvs-min-sync-period": "1500ms",
      "ipvs-tcp-timeout": "15m",
      "nodeport-addresses": "primary",
      "masquerade-all": "true",
      "metrics-bind-address": "0.0.0.0",
      "feature-gates": "AllowServiceExternalIPs=false,NativeHistograms=true",
      "log-json-info-buffer-size": "64Ki",
      "log-text-split-stream": "true",
      vmodule: "proxier=4,ipvs*=2",
      "hostname-override": "yes",
      "conntrack-tcp-be-liberal": "true",
      "kube-ipvs-udp-drain-deadline": "0s",
      v: "3",
    };
    const text = written(flags);
    assert.deepEqual(load({}, text).config, load(flags).config);
    assert.equal(written({}, text), text);
  });

  it("omits the deprecated port flags", () => {
    const text = written({ "healthz-port": "0", "metrics-port": "7" });
    assert.match(text, /^healthzBindAddress: 0\.0\.0\.0:10256$/m);
    assert.match(text, /^metricsBindAddress: 127\.0\.0\.1:10249$/m);
  });

  it("writes nothing if the configuration is invalid", () => {
    refusal(() => written({ "oom-score-adj": "5000" }));
  });

  it("knows every path of the table", () => {
    const [document] = parseYamlDocuments(written({ "feature-gates": "AllAlpha=true" }));
    const leftOut = allFields.flatMap(({ path }) => {
      let value: unknown = document?.value;
      for (const key of path.split(".")) value = (value as Record<string, unknown>)[key];
      return value === undefined ? [path] : [];
    });
    assert.deepEqual(leftOut, [
      "logging.vmodule",
      "logging.options.text.splitStream",
      "logging.options.json.splitStream",
      "windowsRunAsService",
    ]);
  });
});
