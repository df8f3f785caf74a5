/** Formats the effective configuration as a file for kube-proxy. Pure. */

import { durationText } from "../base/duration.ts";
import { yamlText } from "../base/yaml.ts";
import type { Config, ProxyMode } from "./config.ts";
import { configApiVersion, configKind } from "./config-file.ts";
import type { Field } from "./field.ts";
import { allFields } from "./fields.ts";
import { kinds } from "./kinds.ts";

/** Fields that kube-proxy omits if they are empty or false (omitempty). */
const leftOutWhenEmpty: ReadonlySet<string> = new Set([
  "featureGates",
  "logging.vmodule",
  "logging.options.text.splitStream",
  "logging.options.json.splitStream",
  "windowsRunAsService",
]);

/** Whether the path is a sync period of a mode other than `mode`. Such periods are written as 0s. */
function isPeriodOfOtherMode(path: string, mode: ProxyMode): boolean {
  return (
    /\.(?:syncPeriod|minSyncPeriod)$/.test(path) &&
    !path.startsWith(mode === "iptables" ? "iptables." : "ipvs.")
  );
}

/** Returns {@link configObject} as YAML. */
export function configText(...given: Parameters<typeof configObject>): string {
  return yamlText(configObject(...given));
}

/**
 * Returns a KubeProxyConfiguration v1alpha1 with every field. `values` are the settings by path; `config` is
 * the configuration built from them.
 */
export function configObject(
  values: ReadonlyMap<string, unknown>,
  config: Pick<Config, "mode" | "healthzBindAddress" | "metricsBindAddress">,
): Readonly<Record<string, unknown>> {
  const resolved = valuesInForce(values, config);
  const root: Record<string, unknown> = { apiVersion: configApiVersion, kind: configKind };
  for (const field of allFields) {
    const value = written(field, resolved.get(field.path), config.mode);
    if (value !== undefined) put(root, field.path.split("."), value);
  }
  return root;
}

/** Returns the settings with the effective mode and listening addresses in place of their defaults. */
export function valuesInForce(
  values: ReadonlyMap<string, unknown>,
  {
    mode,
    healthzBindAddress,
    metricsBindAddress,
  }: Pick<Config, "mode" | "healthzBindAddress" | "metricsBindAddress">,
): ReadonlyMap<string, unknown> {
  const healthz = healthzBindAddress === undefined ? {} : { healthzBindAddress };
  return new Map([...values, ...Object.entries({ mode, ...healthz, metricsBindAddress })]);
}

function written({ path, kind }: Field, value: unknown, mode: ProxyMode): unknown {
  if (isPeriodOfOtherMode(path, mode)) return durationText(0);
  const { write } = kinds[kind];
  const result = write === undefined ? value : write(value as never);
  return leftOutWhenEmpty.has(path) && isEmpty(result) ? undefined : result;
}

function isEmpty(value: unknown): boolean {
  return value === false || value === null || Object.keys(value ?? {}).length === 0;
}

function put(target: Record<string, unknown>, keys: readonly string[], value: unknown): void {
  const [key = "", ...rest] = keys;
  if (rest.length === 0) {
    target[key] = value;
    return;
  }
  const section = (target[key] ?? {}) as Record<string, unknown>;
  target[key] = section;
  put(section, rest, value);
}
