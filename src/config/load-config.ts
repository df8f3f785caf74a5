import { buildConfig, type ConfigSurroundings } from "./build-config.ts";
import type { Command, Config } from "./config.ts";
import { ConfigError, type ConfigProblem } from "./config-error.ts";
import { readConfigFile } from "./config-file.ts";
import { configObject, configText } from "./config-text.ts";
import { gateNotices } from "./feature-gates.ts";
import { type FlagValues, type GatheredSettings, gatherSettings } from "./gather-settings.ts";
import { blankNodeName, type LooseFlagValues, readLooseFlags } from "./loose-flags.ts";
import { type ConfigNotice, noEffectNotice } from "./notice.ts";

/** What configuration needs of the world. */
export interface ConfigWorld {
  /** The text of a file; throws where it cannot be read. */
  readonly readFile: (path: string) => string;
  readonly hostname: () => string;
}

export interface LoadedConfig {
  readonly command: Command;
  readonly config: Config;
  /** The settings that it was made of, by their paths. */
  readonly values: ReadonlyMap<string, unknown>;
  /** Of `--config`; empty: there is none. */
  readonly filePath: string;
  /** The configuration in force, as a KubeProxyConfiguration v1alpha1. */
  readonly object: Readonly<Record<string, unknown>>;
  /** What `--write-config-to` asks for. */
  readonly written?: { readonly path: string; readonly text: string };
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
  const build = (surroundings: ConfigSurroundings): Config =>
    built(early, buildConfig(gathered.settings, surroundings, gathered.nameOf));
  const surroundings = surroundingsOf(loose, world);
  const config = build(surroundings);
  const writtenPath = loose.texts.get("write-config-to") ?? "";
  // The deprecated port flags are left out of it, as upstream.
  const text = (): string =>
    configText(gathered.values, build({ hostname: surroundings.hostname }));
  const { settings, nameOf } = gathered;
  const command = commandOf(loose);
  return {
    command,
    config: freeze(config),
    values: gathered.values,
    filePath: path,
    object: configObject(gathered.values, config),
    ...(writtenPath === "" ? {} : { written: { path: writtenPath, text: text() } }),
    notices: [
      ...[...loose.notices, ...(file?.notices ?? []), ...gathered.notices],
      ...gateNotices(settings.featureGates, nameOf("featureGates")),
      ...clusterNotices(gathered, loose),
      ...modeNotice(gathered, command),
    ],
  };
}

/** Everything that is wrong, told once: a rule may stumble over a setting that is wrong by itself. */
function built(
  early: readonly ConfigProblem[],
  { config, problems }: ReturnType<typeof buildConfig>,
): Config {
  const told = new Set(early.map(({ path }) => path));
  const all = [...early, ...problems.filter(({ path }) => !told.has(path))];
  if (all.length > 0) throw new ConfigError(all);
  return config;
}

/** Where several are asked for, the one that upstream looks at first. */
function commandOf({ texts }: LooseFlagValues): Command {
  if ((texts.get("write-config-to") ?? "") !== "") return "write-config";
  if (texts.get("cleanup") === "true") return "clean-up";
  return texts.get("init-only") === "true" ? "init-only" : "run";
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

/** Clean-up removes what ipvs mode left, whatever mode runs here by now. */
function modeNotice({ settings }: GatheredSettings, command: Command): readonly ConfigNotice[] {
  if (settings.mode !== "" || command === "clean-up") return [];
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
