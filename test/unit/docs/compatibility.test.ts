/** Tests that the compatibility and kernel-settings tables cover everything in the source. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ipFamilies } from "../../../src/base/ip.ts";
import { featureGates } from "../../../src/config/feature-gates.ts";
import { allFields, flagOnlyFields } from "../../../src/config/fields.ts";
import { planConntrackLimits } from "../../../src/plan/conntrack-limits.ts";
import { planEstimator } from "../../../src/plan/estimator.ts";
import { planRules } from "../../../src/plan/rules.ts";
import { setsFor } from "../../../src/plan/sets.ts";
import { planSysctls } from "../../../src/plan/sysctls.ts";
import { kubeProxyMetrics } from "../../prometheus/kube-proxy-metrics.ts";

/** kube-proxy 1.36's flags on Linux, as its usage text lists them. */
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

const docs = join(import.meta.dirname, "../../../docs");

/** Rows of the first table below a heading, each with its subject and description. */
function rowsOf(document: string, heading: string): ReadonlyMap<string, string> {
  const text = `\n${readFileSync(join(docs, document), "utf8")}`;
  const [, section = ""] = text.split(`\n${heading}\n`);
  const [table = ""] = section.split(/^#/m);
  return new Map(
    [...table.matchAll(/^\| `([^`]+)` *\| *(.*?) *\|/gm)].map(([, name = "", status = ""]) => [
      name,
      status,
    ]),
  );
}

const compatibility = (title: string): ReadonlyMap<string, string> =>
  rowsOf("reports/compatibility.md", `## ${title}`);

/** Reasons by name, for settings without effect. */
function withoutEffect(
  rows: readonly (readonly [name: string, noEffect: string | undefined])[],
): ReadonlyMap<string, string> {
  return new Map(
    rows.flatMap(([name, noEffect]) =>
      noEffect === undefined ? [] : [[name, `accepted, no effect: ${noEffect}`] as const],
    ),
  );
}

function documentedWithoutEffect(rows: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  return new Map([...rows].filter(([, status]) => status.startsWith("accepted, no effect")));
}

describe("the compatibility table", () => {
  const flags = compatibility("Flags");
  const fields = compatibility("Fields of KubeProxyConfiguration v1alpha1");
  const gates = compatibility("Feature gates");

  it("contains every flag of kube-proxy, including one that 1.31 removed", () => {
    const known = [...words(upstreamFlags), "proxy-port-range"].map((flag) => `--${flag}`);
    assert.deepEqual([...flags.keys()], known.toSorted());
  });

  it("contains every field of the configuration file", () => {
    assert.deepEqual([...fields.keys()], words(upstreamFields).toSorted());
  });

  it("contains every feature gate that kube-ipvs knows", () => {
    assert.deepEqual([...gates.keys()], featureGates.map(({ name }) => name).toSorted());
  });

  it("names settings without effect and the reason", () => {
    const ofFlags = [...flagOnlyFields, ...allFields].map(
      ({ flag, noEffect }) => [`--${flag}`, flag === undefined ? undefined : noEffect] as const,
    );
    assert.deepEqual(documentedWithoutEffect(flags), withoutEffect(ofFlags.toSorted()));
    const ofFields = allFields.map(({ path, noEffect }) => [path, noEffect] as const);
    assert.deepEqual(documentedWithoutEffect(fields), withoutEffect(ofFields));
    const ofGates = featureGates.map(({ name, noEffect }) => [name, noEffect] as const);
    assert.deepEqual(documentedWithoutEffect(gates), withoutEffect(ofGates));
  });

  it("names kube-proxy's metrics that are absent", () => {
    const absent = [...compatibility("Metrics")].map(([name, status]) => [
      name,
      status.startsWith("differs: absent"),
    ]);
    assert.deepEqual(
      absent,
      kubeProxyMetrics.map(({ name, isAbsent }) => [name, isAbsent === true]),
    );
  });

  it("contains every set and chain", () => {
    const sets = ipFamilies.flatMap((family) => setsFor(family).map(({ name }) => name));
    assert.deepEqual([...compatibility("Sets").keys()], sets.toSorted());
    const { chains } = planRules({
      filledSets: new Set(),
      deniedToNode: [],
      family: "IPv4",
      localDetector: undefined,
      masqueradeAll: false,
      masqueradeMark: 0x4000,
    });
    const names = chains.map(({ table, name }) => `${table} ${name}`);
    assert.deepEqual([...compatibility("Chains").keys()], names.toSorted());
  });
});

describe("the table of kernel settings", () => {
  it("contains every sysctl that is written", () => {
    const limits = {
      maxPerCore: 0,
      min: 0,
      tcpEstablishedTimeoutSeconds: 1,
      tcpCloseWaitTimeoutSeconds: 1,
      udpTimeoutSeconds: 1,
      udpStreamTimeoutSeconds: 1,
      tcpBeLiberal: true,
    };
    const written = [
      ...planSysctls({ strictARP: true, isTunneling: true, kernelRelease: "5.8.0" }),
      ...planEstimator({ runEstimation: "off", estimatorCpus: "0-3", estimatorNice: "0" }),
      ...planConntrackLimits(limits, 1).sysctls,
    ].map(({ path }) => path.replaceAll("/", "."));
    const others = [
      "net.netfilter.nf_conntrack_max",
      "/sys/module/nf_conntrack/parameters/hashsize",
    ];
    assert.deepEqual(
      [...rowsOf("sysctls.md", "# Kernel settings").keys()].toSorted(),
      [...written, ...others].toSorted(),
    );
  });
});
