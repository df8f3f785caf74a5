/** Determines which changes of the configuration apply without a restart. Pure. */
import { isDeepStrictEqual } from "node:util";
import type { Config } from "./config.ts";
import { valuesInForce } from "./config-text.ts";
import { allFields } from "./fields.ts";

/** A configuration and the settings that it was built from. */
export interface ConfigState {
  readonly config: Config;
  /** Settings by path. */
  readonly values: ReadonlyMap<string, unknown>;
  /** Builds a configuration from other values. Throws ConfigError. */
  readonly rebuild: (values: ReadonlyMap<string, unknown>) => Config;
}

export interface ConfigChange {
  /** The running configuration, updated with the changes that apply without a restart. */
  readonly state: ConfigState;
  /** Paths of the settings whose new values now apply. */
  readonly applied: readonly string[];
  /** Paths of the settings whose new values apply after a restart. */
  readonly needRestart: readonly string[];
}

/** Live settings that userspace mode reads only when it starts. */
const fixedInUserspaceMode: ReadonlySet<string> = new Set([
  "bindAddress",
  "kubeIpvs.tcpDrainDeadline",
]);

/** Compares the running configuration with the one now in the file. */
export function changeConfig(running: ConfigState, read: ConfigState): ConfigChange {
  const changed = allFields.filter(
    ({ path, noEffect }) =>
      noEffect === undefined && !isDeepStrictEqual(running.values.get(path), read.values.get(path)),
  );
  const isFixed = (path: string): boolean =>
    running.config.mode === "userspace" && fixedInUserspaceMode.has(path);
  const live = changed.filter(({ isLive, path }) => isLive === true && !isFixed(path));
  const applied = live.map(({ path }) => path);
  const needRestart = changed.filter((field) => !live.includes(field)).map(({ path }) => path);
  const values = new Map([
    ...running.values,
    ...applied.map((path) => [path, read.values.get(path)] as const),
  ]);
  // The default mode and the default listening addresses depend on live settings, but do not change without a restart.
  const config = read.rebuild(valuesInForce(values, running.config));
  return { state: { ...read, config, values }, applied, needRestart };
}
