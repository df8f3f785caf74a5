import { type Cidr, familyOf, type IpAddress, parseIpAddress } from "../base/ip.ts";
import { kubernetesVersion } from "../base/version.ts";
import { buildTuning } from "./build-tuning.ts";
import type {
  Config,
  ListenAddress,
  LocalTraffic,
  NodePortAddresses,
  ObjectsFrom,
} from "./config.ts";
import type { ConfigProblem } from "./config-error.ts";
import { gateProblems, gateValues } from "./feature-gates.ts";
import type { FieldValues } from "./field.ts";
import type { Settings } from "./fields.ts";
import { checkPeriods, periodsOf } from "./periods.ts";
import { proxyModeOf } from "./proxy-mode.ts";
import { readCidrs } from "./read-value.ts";
import { traffic } from "./traffic-settings.ts";

/** What settings must be joined with to make a Config. */
export interface ConfigSurroundings {
  readonly masterUrl?: string;
  readonly hostname: string;
  /** There is a configuration file. */
  readonly hasFile?: boolean;
  /** From the deprecated flags; 0 means "no server". */
  readonly healthzPort?: number;
  readonly metricsPort?: number;
}

/** Reports a problem of a setting that is well-formed by itself. */
export type Report = (path: keyof Settings, value: unknown, reason: string) => void;

/** Says what the settings mean. The Config is only good when no problem was found. */
export function buildConfig(
  settings: Settings,
  surroundings: ConfigSurroundings,
  nameOf: (path: keyof Settings) => string,
): { readonly config: Config; readonly problems: readonly ConfigProblem[] } {
  const problems: ConfigProblem[] = [];
  const report: Report = (path, value, reason) =>
    problems.push({ path: nameOf(path), value, reason });
  checkMode(settings, report);
  const mode = proxyModeOf(settings.mode, surroundings.hasFile === true);
  checkPeriods(settings, mode, report);
  checkHiddenMetrics(settings, report);
  checkLogging(settings, report);
  problems.push(...gateProblems(settings.featureGates, nameOf("featureGates")));
  const config: Config = {
    mode,
    udpTimeoutMs: settings["kubeIpvs.udpTimeout"],
    objectsFrom: objectsFrom(settings, surroundings),
    nodeName: nodeName(settings, surroundings, report),
    ...servers(settings, surroundings, report),
    localTraffic: localTraffic(settings, report),
    nodePortAddresses: nodePortAddresses(settings, report),
    ...ipvs(settings),
    ...periodsOf(settings, mode),
    servesLoopbackNodePorts: settings["iptables.localhostNodePorts"],
    ...own(settings),
    ...traffic(settings, report),
    ...serviceProxy(settings, report),
    tuning: buildTuning(settings, report),
    conntrack: conntrack(settings),
    oomScoreAdj: settings.oomScoreAdj,
    featureGates: gateValues(settings.featureGates),
    logging: {
      format: settings["logging.format"] === "json" ? "json" : "text",
      verbosity: settings["logging.verbosity"],
    },
  };
  return { config, problems };
}

function checkMode({ mode }: Settings, report: Report): void {
  if (["", "ipvs", "iptables", "userspace"].includes(mode)) return;
  const known = mode === "nftables" ? "; for mode nftables, use kube-proxy" : "";
  report("mode", mode, `kube-ipvs supports the proxy modes ipvs, iptables and userspace${known}`);
}

/** Metrics are hidden one release after they were deprecated. */
function checkHiddenMetrics(
  { showHiddenMetricsForVersion: version }: Settings,
  report: Report,
): void {
  const [major, minor] = kubernetesVersion.split(".");
  const previous = `${major}.${Number(minor) - 1}`;
  if (version === "" || version === previous) return;
  report(
    "showHiddenMetricsForVersion",
    version,
    `must be empty or the previous minor version, ${previous}`,
  );
}

function checkLogging(settings: Settings, report: Report): void {
  const { "logging.vmodule": vmodule, "logging.format": format } = settings;
  if (vmodule.length > 0 && format !== "text") {
    report("logging.vmodule", undefined, "is supported for format text only");
  }
  if (gateValues(settings.featureGates).get("LoggingAlphaOptions") === true) return;
  const reason = "requires the feature gate LoggingAlphaOptions";
  for (const path of alphaSwitches) if (settings[path]) report(path, true, reason);
  for (const path of alphaSizes) {
    if (!/^[+-]?0+$/.test(settings[path])) report(path, settings[path], reason);
  }
}

const alphaSwitches = [
  "logging.options.text.splitStream",
  "logging.options.json.splitStream",
] as const;
const alphaSizes = [
  "logging.options.text.infoBufferSize",
  "logging.options.json.infoBufferSize",
] as const;

function objectsFrom(settings: Settings, { masterUrl }: ConfigSurroundings): ObjectsFrom {
  const folder = settings["kubeIpvs.manifests"];
  if (folder !== "") return { kind: "manifests", folder };
  const kubeconfigPath = settings["clientConnection.kubeconfig"];
  return {
    kind: "cluster",
    ...(kubeconfigPath === "" ? {} : { kubeconfigPath }),
    ...(masterUrl === undefined || masterUrl === "" ? {} : { masterUrl }),
  };
}

function nodeName(settings: Settings, { hostname }: ConfigSurroundings, report: Report): string {
  const given = settings.hostnameOverride;
  const name = (given === "" ? hostname : given).trim().toLowerCase();
  if (name === "") report("hostnameOverride", given, "the node's name must not be empty");
  return name;
}

function servers(
  settings: Settings,
  { healthzPort, metricsPort }: ConfigSurroundings,
  report: Report,
): Pick<
  Config,
  | "bindAddress"
  | "healthzBindAddress"
  | "metricsBindAddress"
  | "isBindFailureFatal"
  | "isProfilingEnabled"
> {
  const { bindAddress, metricsBindAddress } = settings;
  const isIpv6 = familyOf(bindAddress) === "IPv6";
  const anywhere = parseIpAddress(isIpv6 ? "::" : "0.0.0.0") as IpAddress;
  const loopback = parseIpAddress(isIpv6 ? "::1" : "127.0.0.1") as IpAddress;
  if (metricsPort === 0) report("metricsBindAddress", undefined, "the metrics port must not be 0");
  const isObserveOnly = settings["kubeIpvs.observeOnly"];
  const ports = isObserveOnly ? observeOnlyPorts : usualPorts;
  const healthz = listenAddress(
    settings.healthzBindAddress,
    anywhere,
    healthzPort ?? ports.healthz,
  );
  return {
    bindAddress,
    ...(healthzPort === 0 ? {} : { healthzBindAddress: healthz }),
    metricsBindAddress: listenAddress(metricsBindAddress, loopback, metricsPort ?? ports.metrics),
    // A port is no reason to stop watching.
    isBindFailureFatal: !isObserveOnly && settings.bindAddressHardFail,
    isProfilingEnabled: settings.enableProfiling,
  };
}

/** kube-proxy's. */
const usualPorts = { healthz: 10_256, metrics: 10_249 };
/** Where no port is given: who only observes does so beside a proxy that has the usual ones. */
const observeOnlyPorts = { healthz: 10_356, metrics: 10_349 };

function listenAddress(
  given: FieldValues["listen"],
  address: IpAddress,
  port: number,
): ListenAddress {
  return { address: given?.address ?? address, port: given?.port ?? port };
}

function localTraffic(settings: Settings, report: Report): LocalTraffic {
  switch (settings.detectLocalMode) {
    case "NodeCIDR":
      return { kind: "node-cidr" };
    case "BridgeInterface":
      return { kind: "bridge-interface", name: linkName("detectLocal.bridgeInterface") };
    case "InterfaceNamePrefix":
      return { kind: "interface-prefix", prefix: linkName("detectLocal.interfaceNamePrefix") };
    default:
      return { kind: "cluster-cidr", cidrs: clusterCidrs(settings, report) };
  }

  function linkName(
    path: "detectLocal.bridgeInterface" | "detectLocal.interfaceNamePrefix",
  ): string {
    const name = settings[path];
    if (name === "")
      report(path, name, `is required for detectLocalMode ${settings.detectLocalMode}`);
    // The name goes into iptables rules: 15 bytes without blanks are all the kernel allows (IFNAMSIZ).
    else if (!/^[^\s/\p{C}]+$/u.test(name) || Buffer.byteLength(name) > 15) {
      report(path, name, "must be the name of a network interface, at most 15 bytes");
    }
    return name;
  }
}

function clusterCidrs({ clusterCIDR }: Settings, report: Report): readonly Cidr[] {
  const reading = readCidrs(clusterCIDR);
  const given = clusterCIDR.join(",");
  if ("reason" in reading) {
    report("clusterCIDR", given, reading.reason);
    return [];
  }
  const families = reading.value.map(({ address }) => familyOf(address));
  if (new Set(families).size < families.length) {
    report("clusterCIDR", given, "must be one CIDR, or one CIDR per IP family");
  }
  return reading.value;
}

function nodePortAddresses(settings: Settings, report: Report): NodePortAddresses {
  const given = settings.nodePortAddresses;
  if (given.length === 0) return { kind: "all" };
  if (given.length === 1 && given[0] === "primary") return { kind: "primary" };
  const reading = readCidrs(given);
  if ("value" in reading) return { kind: "cidrs", cidrs: reading.value };
  const reason = given.includes("primary") ? "primary must be the only entry" : reading.reason;
  report("nodePortAddresses", given, reason);
  return { kind: "all" };
}

function ipvs(
  settings: Settings,
): Pick<
  Config,
  | "scheduler"
  | "excludeCidrs"
  | "isStrictArp"
  | "ipvsTimeouts"
  | "isMasqueradeAll"
  | "masqueradeMark"
> {
  return {
    scheduler: settings["ipvs.scheduler"] || "rr",
    excludeCidrs: settings["ipvs.excludeCIDRs"],
    isStrictArp: settings["ipvs.strictARP"],
    ipvsTimeouts: {
      tcpSeconds: wholeSeconds(settings["ipvs.tcpTimeout"]),
      tcpFinSeconds: wholeSeconds(settings["ipvs.tcpFinTimeout"]),
      udpSeconds: wholeSeconds(settings["ipvs.udpTimeout"]),
    },
    isMasqueradeAll: settings["iptables.masqueradeAll"],
    masqueradeMark: (1 << settings["iptables.masqueradeBit"]) >>> 0,
  };
}

function own(
  settings: Settings,
): Pick<
  Config,
  | "foreignVirtualServers"
  | "verificationPeriodMs"
  | "drain"
  | "drainStartTimesPath"
  | "ruleCheckPeriodMs"
  | "listGuardPercent"
  | "isObserveOnly"
  | "manualWeights"
  | "edges"
  | "areNodePortsOnLocalhost"
  | "reservedAddresses"
  | "virtualAddresses"
  | "nodeAddressPeriodMs"
  | "isOtherProxyAllowed"
  | "isLeftoverRemoved"
  | "lockName"
  | "operatorSocketPath"
  | "isConfigReloaded"
> {
  const foreign = settings["kubeIpvs.foreignVirtualServers"];
  return {
    foreignVirtualServers: foreign === "delete" ? "delete" : "keep",
    verificationPeriodMs: settings["kubeIpvs.verificationPeriod"],
    drain: {
      tcpDeadlineSeconds: settings["kubeIpvs.tcpDrainDeadline"] / 1000,
      udpDeadlineSeconds: settings["kubeIpvs.udpDrainDeadline"] / 1000,
    },
    drainStartTimesPath: settings["kubeIpvs.drainStartTimesFile"],
    ruleCheckPeriodMs: settings["kubeIpvs.ruleCheckPeriod"],
    listGuardPercent: settings["kubeIpvs.relistGuardPercent"],
    isObserveOnly: settings["kubeIpvs.observeOnly"],
    edges: {
      isPingAnswered: settings["kubeIpvs.answerPing"],
      isNodeMasqueraded: settings["kubeIpvs.masqueradeNodeToLocal"],
      areSourceRangesStrict: settings["kubeIpvs.strictSourceRanges"],
    },
    areNodePortsOnLocalhost: settings["kubeIpvs.localhostNodePorts"],
    manualWeights: settings["kubeIpvs.manualWeights"] === "repair" ? "repair" : "keep",
    reservedAddresses: settings["kubeIpvs.reservedAddresses"] === "refuse" ? "refuse" : "serve",
    virtualAddresses: settings["kubeIpvs.virtualAddresses"] === "routes" ? "routes" : "addresses",
    nodeAddressPeriodMs: settings["kubeIpvs.nodeAddressPeriod"],
    isOtherProxyAllowed: settings["kubeIpvs.ignoreRunningKubeProxy"],
    isLeftoverRemoved: settings["kubeIpvs.removeLeftovers"],
    lockName: settings["kubeIpvs.lockName"],
    operatorSocketPath: settings["kubeIpvs.operatorSocket"].replaceAll(
      "{lockName}",
      settings["kubeIpvs.lockName"],
    ),
    isConfigReloaded: settings["kubeIpvs.configReload"],
  };
}

/** A label's value, or nothing. */
function serviceProxy(settings: Settings, report: Report): Pick<Config, "serviceProxyName"> {
  const name = settings["kubeIpvs.serviceProxyName"];
  if (name === "") return {};
  if (!/^[a-z0-9](?:[\w.-]{0,61}[a-z0-9])?$/i.test(name)) {
    report("kubeIpvs.serviceProxyName", name, "must be a valid label value");
  }
  return { serviceProxyName: name };
}

function conntrack(settings: Settings): Config["conntrack"] {
  return {
    maxPerCore: settings["conntrack.maxPerCore"],
    min: settings["conntrack.min"],
    tcpEstablishedSeconds: wholeSeconds(settings["conntrack.tcpEstablishedTimeout"]),
    tcpCloseWaitSeconds: wholeSeconds(settings["conntrack.tcpCloseWaitTimeout"]),
    udpSeconds: wholeSeconds(settings["conntrack.udpTimeout"]),
    udpStreamSeconds: wholeSeconds(settings["conntrack.udpStreamTimeout"]),
    isTcpLiberal: settings["conntrack.tcpBeLiberal"],
  };
}

/** The kernel counts in seconds; parts of one are cut off, as upstream. */
function wholeSeconds(durationMs: number): number {
  return Math.trunc(durationMs / 1000);
}
