import { buildConfig, type ConfigSurroundings } from "./build-config.ts";
import type { Command, Config } from "./config.ts";
import { ConfigError, type ConfigProblem } from "./config-error.ts";
import { readConfigFile } from "./config-file.ts";
import { looseFlags } from "./fields.ts";
import { type FlagValues, type GatheredSettings, gatherSettings } from "./gather-settings.ts";
import { type ConfigNotice, noEffectNotice } from "./notice.ts";
import { readText } from "./read-value.ts";

/** What configuration needs of the world. */
export interface ConfigWorld {
  /** The text of a file; throws where it cannot be read. */
  readonly readFile: (path: string) => string;
  readonly hostname: () => string;
}

export interface LoadedConfig {
  readonly command: Command;
  readonly config: Config;
  /** To be logged when logging is set up as the configuration says. */
  readonly notices: readonly ConfigNotice[];
}

/** Makes the configuration from flags and the file they may name. Throws {@link ConfigError}. */
export function loadConfig(flags: FlagValues, world: ConfigWorld): LoadedConfig {
  const loose = readLooseFlags(flags);
  const path = loose.texts.get("config") ?? "";
  const file = path === "" ? undefined : readConfigFile(path, world.readFile);
  const gathered = gatherSettings(file?.fields, flags);
  const early = [...loose.problems, ...gathered.problems, ...blankNodeName(flags)];
  // Rules between settings would stumble over the ones that are missing.
  if (early.length > 0) throw new ConfigError(early);
  const { config, problems } = buildConfig(
    gathered.settings,
    surroundingsOf(loose, world),
    gathered.nameOf,
  );
  if (problems.length > 0) throw new ConfigError(problems);
  const notices = [...loose.notices, ...(file?.notices ?? []), ...gathered.notices];
  return {
    command: loose.texts.get("cleanup") === "true" ? "clean-up" : "run",
    config: freeze(config),
    notices: [...notices, ...clusterNotices(gathered, loose), ...modeNotice(gathered)],
  };
}

interface LooseFlagValues {
  /** Values as text in normal form. */
  readonly texts: ReadonlyMap<string, string>;
  readonly problems: readonly ConfigProblem[];
  readonly notices: readonly ConfigNotice[];
}

function readLooseFlags(flags: FlagValues): LooseFlagValues {
  const texts = new Map<string, string>();
  const problems: ConfigProblem[] = [];
  const notices: ConfigNotice[] = [];
  for (const { flag, kind, noEffect } of looseFlags) {
    const raw = flags.get(flag)?.at(-1);
    if (raw === undefined) continue;
    const reading = readText({ kind }, raw);
    if ("reason" in reading) problems.push({ path: `--${flag}`, value: raw, ...reading });
    else texts.set(flag, String(reading.value));
    if (noEffect === undefined) continue;
    notices.push(noEffectNotice(`--${flag}`, noEffect));
  }
  return { texts, problems, notices };
}

/** White space alone is a mistake (an unset variable in a manifest), not «no override». */
function blankNodeName(flags: FlagValues): readonly ConfigProblem[] {
  const value = flags.get("hostname-override")?.at(-1) ?? "";
  if (value === "" || value.trim() !== "") return [];
  return [{ path: "--hostname-override", value, reason: "must not be blank" }];
}

function surroundingsOf({ texts }: LooseFlagValues, world: ConfigWorld): ConfigSurroundings {
  const masterUrl = texts.get("master");
  const healthzPort = texts.get("healthz-port");
  const metricsPort = texts.get("metrics-port");
  return {
    hostname: world.hostname(),
    ...(masterUrl === undefined ? {} : { masterUrl }),
    ...(healthzPort === undefined ? {} : { healthzPort: Number(healthzPort) }),
    ...(metricsPort === undefined ? {} : { metricsPort: Number(metricsPort) }),
  };
}

/** A folder of manifests takes the place of a cluster: what names one counts for nothing beside it. */
function clusterNotices(
  { settings, nameOf }: GatheredSettings,
  { texts }: LooseFlagValues,
): readonly ConfigNotice[] {
  if (settings["kubeIpvs.manifests"] === "") return [];
  const kubeconfig = "clientConnection.kubeconfig";
  const idle = [
    ...(settings[kubeconfig] === "" ? [] : [nameOf(kubeconfig)]),
    ...((texts.get("master") ?? "") === "" ? [] : ["--master"]),
  ];
  const reason = `objects come from the folder of ${nameOf("kubeIpvs.manifests")}`;
  return idle.map((setting) => noEffectNotice(setting, reason));
}

function modeNotice({ settings }: GatheredSettings): readonly ConfigNotice[] {
  if (settings.mode !== "") return [];
  return [{ level: "info", event: "No proxy mode chosen, using ipvs", keys: {} }];
}

/** Freezes plain objects and arrays to the bottom. */
function freeze<T>(value: T): T {
  if (typeof value === "object" && value !== null) {
    for (const part of Object.values(value)) freeze(part);
    Object.freeze(value);
  }
  return value;
}
