import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { documents } from "../../../toolchain/docs/documents.ts";
import { flagsAndFields } from "../../../toolchain/docs/flags-and-fields.ts";

const project = join(import.meta.dirname, "../../..");

describe("a generated document", () => {
  for (const [path, text] of Object.entries(documents)) {
    it(`is as its table says: ${path} (make docs writes it)`, () => {
      assert.equal(readFileSync(join(project, path), "utf8"), text());
    });
  }
});

/** Flags of kube-proxy 1.36 on Linux, as its usage text lists them. */
const upstreamFlags = `
  bind-address bind-address-hard-fail boot-id-file cleanup cluster-cidr config config-sync-period
  conntrack-max-per-core conntrack-min conntrack-tcp-be-liberal conntrack-tcp-timeout-close-wait
  conntrack-tcp-timeout-established conntrack-udp-timeout conntrack-udp-timeout-stream detect-local-mode
  feature-gates healthz-bind-address healthz-port help hostname-override init-only
  iptables-localhost-nodeports iptables-masquerade-bit iptables-min-sync-period iptables-sync-period
  ipvs-exclude-cidrs ipvs-min-sync-period ipvs-scheduler ipvs-strict-arp ipvs-sync-period
  ipvs-tcp-timeout ipvs-tcpfin-timeout ipvs-udp-timeout kube-api-burst kube-api-content-type
  kube-api-qps kubeconfig log-flush-frequency log-json-info-buffer-size log-json-split-stream
  log-text-info-buffer-size log-text-split-stream logging-format machine-id-file masquerade-all master
  metrics-bind-address metrics-port nodeport-addresses oom-score-adj pod-bridge-interface
  pod-interface-name-prefix profiling proxy-mode show-hidden-metrics-for-version v version vmodule
  write-config-to
`;

/** Fields of KubeProxyConfiguration v1alpha1, 1.36. */
const upstreamFields = `
  bindAddress bindAddressHardFail clientConnection.acceptContentTypes clientConnection.burst
  clientConnection.contentType clientConnection.kubeconfig clientConnection.qps clusterCIDR
  configSyncPeriod conntrack.maxPerCore conntrack.min conntrack.tcpBeLiberal
  conntrack.tcpCloseWaitTimeout conntrack.tcpEstablishedTimeout conntrack.udpStreamTimeout
  conntrack.udpTimeout detectLocal.bridgeInterface detectLocal.interfaceNamePrefix detectLocalMode
  enableProfiling featureGates healthzBindAddress hostnameOverride iptables.localhostNodePorts
  iptables.masqueradeAll iptables.masqueradeBit iptables.minSyncPeriod iptables.syncPeriod
  ipvs.excludeCIDRs ipvs.minSyncPeriod ipvs.scheduler ipvs.strictARP ipvs.syncPeriod
  ipvs.tcpFinTimeout ipvs.tcpTimeout ipvs.udpTimeout logging.flushFrequency logging.format
  logging.options.json.infoBufferSize logging.options.json.splitStream
  logging.options.text.infoBufferSize logging.options.text.splitStream logging.verbosity
  logging.vmodule metricsBindAddress mode nftables.masqueradeAll nftables.masqueradeBit
  nftables.minSyncPeriod nftables.syncPeriod nodePortAddresses oomScoreAdj portRange
  showHiddenMetricsForVersion windowsRunAsService winkernel.enableDSR winkernel.forwardHealthCheckVip
  winkernel.networkName winkernel.rootHnsEndpointName winkernel.sourceVip
`;

const words = (text: string): readonly string[] => text.trim().split(/\s+/);

function namesIn(title: string): readonly string[] {
  const section = flagsAndFields.find((candidate) => candidate.title.startsWith(title));
  return section?.rows.map(({ name }) => name) ?? [];
}

describe("the table of compatibility", () => {
  it("has every flag of kube-proxy, and one that 1.31 removed", () => {
    const known = [...words(upstreamFlags), "proxy-port-range"].map((flag) => `--${flag}`);
    assert.deepEqual(namesIn("Flags"), known.toSorted());
  });

  it("has every field of the configuration file", () => {
    assert.deepEqual(namesIn("Fields"), words(upstreamFields).toSorted());
  });
});
