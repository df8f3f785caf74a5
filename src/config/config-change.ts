/** What of a changed configuration can count while the program runs. Pure. */
import { isDeepStrictEqual } from "node:util";
import type { Config } from "./config.ts";
import { allFields } from "./fields.ts";

/** A configuration with the settings that it was made of, by their paths. */
export interface ConfigState {
  readonly config: Config;
  readonly values: ReadonlyMap<string, unknown>;
}

export interface ConfigChange {
  /** The running configuration with the settings that can be changed alive. */
  readonly state: ConfigState;
  /** Paths of settings that count from now on. */
  readonly applied: readonly string[];
  /** Paths of settings whose new value counts after a restart. */
  readonly needRestart: readonly string[];
}

/** The parts of a Config that are made of fields marked `isLive`, and of nothing else. */
const liveParts = [
  "bindAddress",
  "localTraffic",
  "nodePortAddresses",
  "scheduler",
  "extraSchedulers",
  "tuning",
  "excludeCidrs",
  "foreignVirtualServers",
  "isStrictArp",
  "ipvsTimeouts",
  "estimator",
  "isMasqueradeAll",
  "masqueradeMark",
  "servesLoopbackNodePorts",
  "syncPeriodMs",
  "minSyncPeriodMs",
  "verificationPeriodMs",
  "drain",
  "manualWeights",
  "edges",
  "reservedAddresses",
  "conntrack",
  "oomScoreAdj",
] as const satisfies readonly (keyof Config)[];

/** Compares what runs with what the file says now. */
export function changeConfig(running: ConfigState, read: ConfigState): ConfigChange {
  const changed = allFields.filter(
    ({ path, noEffect }) =>
      noEffect === undefined && !isDeepStrictEqual(running.values.get(path), read.values.get(path)),
  );
  const applied = changed.filter(({ isLive }) => isLive === true).map(({ path }) => path);
  const needRestart = changed.filter(({ isLive }) => isLive !== true).map(({ path }) => path);
  return { state: merged(running, read, applied), applied, needRestart };
}

function merged(running: ConfigState, read: ConfigState, applied: readonly string[]): ConfigState {
  const live = Object.fromEntries(liveParts.map((part) => [part, read.config[part]]));
  const { verbosity } = read.config.logging;
  const logging = { ...running.config.logging, verbosity };
  return {
    config: Object.freeze({ ...running.config, ...live, logging: Object.freeze(logging) }),
    values: new Map([
      ...running.values,
      ...applied.map((path) => [path, read.values.get(path)] as const),
    ]),
  };
}
