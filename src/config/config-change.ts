/** What of a changed configuration applies while the program runs. Pure. */
import { isDeepStrictEqual } from "node:util";
import type { Config } from "./config.ts";
import { valuesInForce } from "./config-text.ts";
import { allFields } from "./fields.ts";

/** A configuration with the settings that it was made of. */
export interface ConfigState {
  readonly config: Config;
  /** By path. */
  readonly values: ReadonlyMap<string, unknown>;
  /** Makes a configuration of other values. Throws ConfigError. */
  readonly rebuild: (values: ReadonlyMap<string, unknown>) => Config;
}

export interface ConfigChange {
  /** The running configuration with the settings that can be changed alive. */
  readonly state: ConfigState;
  /** Paths of settings that apply from now on. */
  readonly applied: readonly string[];
  /** Paths of settings whose new value applies after a restart. */
  readonly needRestart: readonly string[];
}

/** Compares what runs with what the file says now. */
export function changeConfig(running: ConfigState, read: ConfigState): ConfigChange {
  const changed = allFields.filter(
    ({ path, noEffect }) =>
      noEffect === undefined && !isDeepStrictEqual(running.values.get(path), read.values.get(path)),
  );
  const applied = changed.filter(({ isLive }) => isLive === true).map(({ path }) => path);
  const needRestart = changed.filter(({ isLive }) => isLive !== true).map(({ path }) => path);
  const values = new Map([
    ...running.values,
    ...applied.map((path) => [path, read.values.get(path)] as const),
  ]);
  // Defaults of the mode and of listening addresses depend on live settings, and do not change alive.
  const config = read.rebuild(valuesInForce(values, running.config));
  return { state: { ...read, config, values }, applied, needRestart };
}
