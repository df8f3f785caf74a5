/** Kubernetes feature gates: valid names and their effects in kube-ipvs. Pure. */
import { type ConfigNotice, noEffectNotice } from "./notice.ts";

/** A gate relevant to a service proxy, as in kube-proxy 1.36 or the last release that had it. */
export interface FeatureGate {
  readonly name: string;
  /** The stage, as shown in the metric `kubernetes_feature_enabled`. Empty for a stable (GA) gate. */
  readonly stage: "ALPHA" | "BETA" | "" | "DEPRECATED";
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
    effect: "default for alpha gates that are not set individually",
  },
  {
    name: "AllBeta",
    stage: "BETA",
    effect: "default for beta gates that are not set individually",
  },
  {
    name: "AllowServiceExternalIPs",
    stage: "",
    effect: "if off, externalIPs of Services are not served",
  },
  { name: "ComponentFlagz", stage: "BETA", effect: "if on, /flagz is served" },
  { name: "ComponentStatusz", stage: "BETA", effect: "if on, /statusz is served" },
  { name: "LoggingAlphaOptions", stage: "ALPHA", noEffect: "logging.options has no effect" },
  { name: "LoggingBetaOptions", stage: "BETA", noEffect: "no setting requires it" },
  { name: "ContextualLogging", stage: "BETA", noEffect: "log lines always carry their context" },
  { name: "NativeHistograms", stage: "ALPHA", noEffect: "histograms are always classic" },
  { name: "LoadBalancerIPMode", stage: "", noEffect: alwaysOn },
  { name: "ServiceTrafficDistribution", stage: "", noEffect: alwaysOn },
  { name: "PreferSameTrafficDistribution", stage: "", noEffect: alwaysOn },
  { name: "TopologyAwareHints", stage: "", noEffect: alwaysOn },
  { name: "ProxyTerminatingEndpoints", stage: "", noEffect: alwaysOn },
  { name: "KubeProxyDrainingTerminatingNodes", stage: "", noEffect: alwaysOn },
  { name: "MultiCIDRServiceAllocator", stage: "", noEffect: "ServiceCIDRs are not needed" },
  { name: "KubeProxyIPVS", stage: "DEPRECATED", noEffect: "IPVS mode needs no gate in kube-ipvs" },
  { name: "NFTablesProxyMode", stage: "", noEffect: nftables },
  { name: "NFTablesNetlink", stage: "BETA", noEffect: nftables },
  { name: "KubeProxyNFTablesLocalhostNodePorts", stage: "ALPHA", noEffect: nftables },
];

/** The value of every gate of {@link featureGates}. */
export type GateValues = ReadonlyMap<string, boolean>;

/**
 * Resolves all gates. A gate's own value takes precedence over the value of `AllAlpha` or `AllBeta`, which takes
 * precedence over the default. By default, all gates are on except alpha gates and `AllBeta`.
 */
export function gateValues(given: GateValues): GateValues {
  const ofStage = { ALPHA: given.get("AllAlpha"), BETA: given.get("AllBeta") } as const;
  return new Map(
    featureGates.map(({ name, stage }) => {
      const all = stage === "ALPHA" || stage === "BETA" ? ofStage[stage] : undefined;
      const isOnByDefault = stage !== "ALPHA" && name !== "AllBeta";
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
