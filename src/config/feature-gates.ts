/** Kubernetes feature gates: valid names and their effects in kube-ipvs. Pure. */
import { type ConfigNotice, noEffectNotice } from "./notice.ts";

/** A gate relevant to a service proxy, as in kube-proxy 1.36 or the last release that had it. */
export interface FeatureGate {
  readonly name: string;
  /** The stage, as shown in the metric `kubernetes_feature_enabled`. Empty for a stable (GA) gate. */
  readonly stage: "ALPHA" | "BETA" | "" | "DEPRECATED";
  readonly isOnByDefault: boolean;
  /** The gate's effect in kube-ipvs. If undefined, the gate has no effect, and `noEffect` gives the reason. */
  readonly effect?: string;
  readonly noEffect?: string;
}

const alwaysOn = "always on in kube-ipvs";
const nftables = "applies to nftables mode only";

/**
 * The gates relevant to a service proxy. `AllAlpha` and `AllBeta` set the default for the other gates in their stage.
 */
export const featureGates: readonly FeatureGate[] = [
  {
    name: "AllAlpha",
    stage: "ALPHA",
    isOnByDefault: false,
    effect: "default for alpha gates that are not set individually",
  },
  {
    name: "AllBeta",
    stage: "BETA",
    isOnByDefault: false,
    effect: "default for beta gates that are not set individually",
  },
  {
    name: "AllowServiceExternalIPs",
    stage: "",
    isOnByDefault: true,
    effect: "off: externalIPs of Services are not served",
  },
  { name: "ComponentFlagz", stage: "BETA", isOnByDefault: true, effect: "on: /flagz is served" },
  {
    name: "ComponentStatusz",
    stage: "BETA",
    isOnByDefault: true,
    effect: "on: /statusz is served",
  },
  {
    name: "LoggingAlphaOptions",
    stage: "ALPHA",
    isOnByDefault: false,
    noEffect: "logging.options has no effect",
  },
  {
    name: "LoggingBetaOptions",
    stage: "BETA",
    isOnByDefault: true,
    noEffect: "no setting requires it",
  },
  {
    name: "ContextualLogging",
    stage: "BETA",
    isOnByDefault: true,
    noEffect: "log lines always carry their context",
  },
  {
    name: "NativeHistograms",
    stage: "ALPHA",
    isOnByDefault: false,
    noEffect: "histograms are always classic",
  },
  { name: "LoadBalancerIPMode", stage: "", isOnByDefault: true, noEffect: alwaysOn },
  { name: "ServiceTrafficDistribution", stage: "", isOnByDefault: true, noEffect: alwaysOn },
  { name: "PreferSameTrafficDistribution", stage: "", isOnByDefault: true, noEffect: alwaysOn },
  { name: "TopologyAwareHints", stage: "", isOnByDefault: true, noEffect: alwaysOn },
  { name: "ProxyTerminatingEndpoints", stage: "", isOnByDefault: true, noEffect: alwaysOn },
  { name: "KubeProxyDrainingTerminatingNodes", stage: "", isOnByDefault: true, noEffect: alwaysOn },
  {
    name: "MultiCIDRServiceAllocator",
    stage: "",
    isOnByDefault: true,
    noEffect: "ServiceCIDRs are not needed",
  },
  {
    name: "KubeProxyIPVS",
    stage: "DEPRECATED",
    isOnByDefault: true,
    noEffect: "IPVS mode needs no gate in kube-ipvs",
  },
  { name: "NFTablesProxyMode", stage: "", isOnByDefault: true, noEffect: nftables },
  { name: "NFTablesNetlink", stage: "BETA", isOnByDefault: true, noEffect: nftables },
  {
    name: "KubeProxyNFTablesLocalhostNodePorts",
    stage: "ALPHA",
    isOnByDefault: false,
    noEffect: nftables,
  },
];

/** The value of every gate of {@link featureGates}. */
export type GateValues = ReadonlyMap<string, boolean>;

/** Resolves all gates. The gate's own value wins, then that of `AllAlpha` or `AllBeta`, then the default. */
export function gateValues(given: GateValues): GateValues {
  const ofStage = { ALPHA: given.get("AllAlpha"), BETA: given.get("AllBeta") } as const;
  return new Map(
    featureGates.map(({ name, stage, isOnByDefault }) => {
      const all = stage === "ALPHA" || stage === "BETA" ? ofStage[stage] : undefined;
      return [name, given.get(name) ?? all ?? isOnByDefault];
    }),
  );
}

/** Each gate with its stage and value, for the metric `kubernetes_feature_enabled`. */
export function gateStates(
  values: GateValues,
): readonly (Pick<FeatureGate, "name" | "stage"> & { readonly isOn: boolean })[] {
  return featureGates.map(({ name, stage }) => ({ name, stage, isOn: values.get(name) === true }));
}

/** Returns one warning per gate without effect, and one for all gates that are not in {@link featureGates}. */
export function gateNotices(given: GateValues, path: string): readonly ConfigNotice[] {
  const idle = featureGates.flatMap(({ name, noEffect }) =>
    noEffect !== undefined && given.has(name) ? [noEffectNotice(`${path}[${name}]`, noEffect)] : [],
  );
  const unknown = [...given.keys()].filter(
    (name) => !featureGates.some((gate) => gate.name === name),
  );
  return unknown.length === 0 ? idle : [...idle, unknownGates(unknown, path)];
}

function unknownGates(names: readonly string[], path: string): ConfigNotice {
  const lowerCase = names.map((name) => name.toLowerCase());
  const meant = featureGates.flatMap(({ name }) =>
    lowerCase.includes(name.toLowerCase()) ? [name] : [],
  );
  const setting = `${path}[${names.join(", ")}]`;
  const keys = { setting, ...(meant.length === 0 ? {} : { meant: meant.join(", ") }) };
  return {
    level: "warn",
    event: "Ignoring feature gates unknown to kube-ipvs",
    keys,
    ignored: setting,
  };
}
