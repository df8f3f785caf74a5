import { type Cidr, familyOf, type IpAddress, parseIpAddress } from "../base/ip.ts";
import { parseSchedulerFlags } from "../base/scheduler.ts";
import { checkSettings, type Report } from "./check-settings.ts";
import type { Config, LocalTraffic, NodePortAddresses, ObjectsFrom } from "./config.ts";
import type { ConfigProblem } from "./config-error.ts";
import { gateValues } from "./feature-gates.ts";
import { ownSettings, type Settings } from "./fields.ts";
import { readCidrs } from "./kinds.ts";
import { proxyModeOf } from "./proxy-mode.ts";

/** The inputs of a Config besides the settings. */
export interface ConfigContext {
  readonly masterUrl?: string;
  readonly hostname: string;
  /** Whether an empty mode is invalid, as it is in a configuration file. */
  readonly isModeRequired?: boolean;
  /** Port of the deprecated flag --healthz-port; 0 means no server. */
  readonly healthzPort?: number | undefined;
  readonly metricsPort?: number | undefined;
}

/** Translates settings to a Config, which is valid only if no problem is returned. */
export function buildConfig(
  settings: Settings,
  context: ConfigContext,
  nameOf: (path: keyof Settings) => string,
): { readonly config: Config; readonly problems: readonly ConfigProblem[] } {
  const problems: ConfigProblem[] = [];
  const report: Report = (path, value, reason) =>
    problems.push({ path: nameOf(path), value, reason });
  const mode = proxyModeOf(settings);
  checkSettings(settings, { mode, isModeRequired: context.isModeRequired === true }, report);
  return { config: configOf(settings, { mode, ...context }, report), problems };
}

/** Builds a Config. The translated properties have the same order as in {@link Config}. */
function configOf(
  settings: Settings,
  context: ConfigContext & Pick<Config, "mode">,
  report: Report,
): Config {
  const { mode } = context;
  // iptables mode has its own section; userspace mode uses the ipvs section.
  const section = mode === "iptables" ? "iptables" : "ipvs";
  const {
    portRangeMarks: _marks,
    schedulerFlags: _flags,
    serviceProxyName,
    ...own
  } = ownSettings(settings);
  return {
    ...own,
    mode,
    objectsFrom: objectsFrom(settings, context),
    nodeName: nodeName(settings, context, report),
    bindAddress: settings.bindAddress,
    ...servers(settings, context, report),
    ...secureMetrics(settings, report),
    // In observe-only mode, the program continues even if a port cannot be opened.
    bindAddressHardFail: !own.observeOnly && settings.bindAddressHardFail,
    enableProfiling: settings.enableProfiling,
    detectLocal: detectLocal(settings, report),
    nodePortAddresses: nodePortAddresses(settings, report),
    scheduler: settings["ipvs.scheduler"] || "rr",
    ...schedulerFlags(settings, report),
    limits: {
      service: {
        frontends: own.serviceFrontendLimit || Number.POSITIVE_INFINITY,
        endpoints: own.serviceEndpointLimit || Number.POSITIVE_INFINITY,
      },
      namespace: {
        frontends: own.namespaceFrontendLimit || Number.POSITIVE_INFINITY,
        endpoints: own.namespaceEndpointLimit || Number.POSITIVE_INFINITY,
      },
    },
    excludeCIDRs: settings["ipvs.excludeCIDRs"],
    strictARP: settings["ipvs.strictARP"],
    ipvsTimeouts: {
      tcpSeconds: wholeSeconds(settings["ipvs.tcpTimeout"]),
      tcpFinSeconds: wholeSeconds(settings["ipvs.tcpFinTimeout"]),
      udpSeconds: wholeSeconds(settings["ipvs.udpTimeout"]),
    },
    masqueradeAll: settings["iptables.masqueradeAll"],
    masqueradeMark: (1 << settings["iptables.masqueradeBit"]) >>> 0,
    ...portRangeMarks(settings, report),
    iptablesLocalhostNodePorts: settings["iptables.localhostNodePorts"],
    syncPeriodMs: settings[`${section}.syncPeriod`],
    minSyncPeriodMs: settings[`${section}.minSyncPeriod`],
    drain: {
      tcpDeadlineSeconds: own.tcpDrainDeadlineMs / 1000,
      udpDeadlineSeconds: own.udpDrainDeadlineMs / 1000,
    },
    clientConnection: {
      qps: settings["clientConnection.qps"],
      burst: settings["clientConnection.burst"],
    },
    conntrack: {
      maxPerCore: settings["conntrack.maxPerCore"],
      min: settings["conntrack.min"],
      tcpEstablishedTimeoutSeconds: wholeSeconds(settings["conntrack.tcpEstablishedTimeout"]),
      tcpCloseWaitTimeoutSeconds: wholeSeconds(settings["conntrack.tcpCloseWaitTimeout"]),
      udpTimeoutSeconds: wholeSeconds(settings["conntrack.udpTimeout"]),
      udpStreamTimeoutSeconds: wholeSeconds(settings["conntrack.udpStreamTimeout"]),
      tcpBeLiberal: settings["conntrack.tcpBeLiberal"],
    },
    oomScoreAdj: settings.oomScoreAdj,
    logging: { format: settings["logging.format"], verbosity: settings["logging.verbosity"] },
    featureGates: gateValues(settings.featureGates),
    operatorSocket: own.operatorSocket.replaceAll("{lockName}", own.lockName),
    ...(serviceProxyName === "" ? {} : { serviceProxyName }),
  };
}

/** Marks are hashes of addresses, so a narrow mask would cause conflicts. */
const fewestMarkBits = 8;

function portRangeMarks(settings: Settings, report: Report): Pick<Config, "portRangeMarks"> {
  const text = settings["kubeIpvs.portRangeMarks"];
  if (text === "") return {};
  const bits = /^0x([0-9a-f]{1,8})$/i.exec(text)?.[1];
  const mask = Number.parseInt(bits ?? "0", 16);
  if (!/^0*1{8,}0*$/.test(mask.toString(2))) {
    const reason = `must be a hexadecimal mask of at least ${fewestMarkBits} adjacent bits, such as 0x3fff0000`;
    report("kubeIpvs.portRangeMarks", text, reason);
    return {};
  }
  const masqueradeBit = settings["iptables.masqueradeBit"];
  if ((mask & (1 << masqueradeBit)) !== 0) {
    const reason = `must not contain iptables.masqueradeBit (${masqueradeBit})`;
    report("kubeIpvs.portRangeMarks", text, reason);
  }
  return { portRangeMarks: mask };
}

function objectsFrom(settings: Settings, { masterUrl }: ConfigContext): ObjectsFrom {
  const folder = settings["kubeIpvs.manifests"];
  if (folder !== "") return { kind: "manifests", folder };
  const kubeconfigPath = settings["clientConnection.kubeconfig"];
  return {
    kind: "cluster",
    ...(kubeconfigPath === "" ? {} : { kubeconfigPath }),
    ...(masterUrl === undefined || masterUrl === "" ? {} : { masterUrl }),
  };
}

function nodeName(settings: Settings, { hostname }: ConfigContext, report: Report): string {
  const given = settings.hostnameOverride;
  const name = (given === "" ? hostname : given).trim().toLowerCase();
  if (name === "") report("hostnameOverride", given, "the node's name must not be empty");
  return name;
}

/** The addresses of the HTTP servers. `healthzBindAddress` is undefined if the health server is disabled. */
function servers(
  settings: Settings,
  { healthzPort, metricsPort }: ConfigContext,
  report: Report,
): Pick<Config, "healthzBindAddress" | "metricsBindAddress"> {
  const isIpv6 = familyOf(settings.bindAddress) === "IPv6";
  const anywhere = parseIpAddress(isIpv6 ? "::" : "0.0.0.0") as IpAddress;
  const loopback = parseIpAddress(isIpv6 ? "::1" : "127.0.0.1") as IpAddress;
  if (metricsPort === 0) report("metricsBindAddress", undefined, "the metrics port must not be 0");
  const given = { healthz: settings.healthzBindAddress, metrics: settings.metricsBindAddress };
  // In observe-only mode, kube-proxy runs beside kube-ipvs and already uses the configured ports.
  const ports = settings["kubeIpvs.observeOnly"]
    ? observeOnlyPorts
    : {
        healthz: given.healthz?.port ?? healthzPort ?? 10_256,
        metrics: given.metrics?.port ?? metricsPort ?? 10_249,
      };
  const address = { healthz: given.healthz?.address, metrics: given.metrics?.address };
  return {
    ...(healthzPort === 0
      ? {}
      : { healthzBindAddress: { address: address.healthz ?? anywhere, port: ports.healthz } }),
    metricsBindAddress: { address: address.metrics ?? loopback, port: ports.metrics },
  };
}

function secureMetrics(settings: Settings, report: Report): Pick<Config, "secureMetrics"> {
  const given = settings["kubeIpvs.secureMetricsBindAddress"];
  if (given === undefined) return {};
  const certFile = settings["kubeIpvs.secureMetricsCertFile"];
  const keyFile = settings["kubeIpvs.secureMetricsKeyFile"];
  const needed = "is required with kubeIpvs.secureMetricsBindAddress";
  if (certFile === "") report("kubeIpvs.secureMetricsCertFile", undefined, needed);
  if (keyFile === "") report("kubeIpvs.secureMetricsKeyFile", undefined, needed);
  if (settings["kubeIpvs.manifests"] !== "") {
    const reason = "needs an API server to check tokens, but kubeIpvs.manifests is set";
    report("kubeIpvs.secureMetricsBindAddress", undefined, reason);
  }
  const { address, port = 10_261 } = given;
  return { secureMetrics: { address: { address, port }, certFile, keyFile } };
}

const observeOnlyPorts = { healthz: 10_356, metrics: 10_349 };

function detectLocal(settings: Settings, report: Report): LocalTraffic {
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
    // The name is used in iptables rules. The kernel allows at most 15 bytes (IFNAMSIZ) and no whitespace.
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

/**
 * Accepts the flags of every scheduler, because a Service's annotation may choose another one than `ipvs.scheduler`.
 */
function schedulerFlags(settings: Settings, report: Report): Pick<Config, "schedulerFlags"> {
  const text = settings["kubeIpvs.schedulerFlags"];
  if (text === "") return {};
  const flags = parseSchedulerFlags(text);
  if (flags !== undefined) return { schedulerFlags: flags };
  const reason = "must be none, or a list of sh-port, sh-fallback, mh-port and mh-fallback";
  report("kubeIpvs.schedulerFlags", text, reason);
  return {};
}

/** Converts a duration to seconds, which is the unit that the kernel uses. As in kube-proxy, fractions are truncated. */
function wholeSeconds(durationMs: number): number {
  return Math.trunc(durationMs / 1000);
}
