import { hostPort } from "../base/ip.ts";
import { buildConfig, type ConfigSurroundings } from "./build-config.ts";
import type { Command, Config, ListenAddress, LogFormat } from "./config.ts";
import { ConfigError, type ConfigProblem } from "./config-error.ts";
import { readConfigFile } from "./config-file.ts";
import { configObject, configText } from "./config-text.ts";
import { gateNotices } from "./feature-gates.ts";
import { blankNodeName, type FlagOnlyValues, readFlagOnlyOptions } from "./flag-only-options.ts";
import { type FlagValues, type GatheredSettings, gatherSettings } from "./gather-settings.ts";
import { type ConfigNotice, noEffectNotice } from "./notice.ts";
import { emptyModeNotices } from "./proxy-mode.ts";

/** What configuration needs of the world. */
export interface ConfigWorld {
  /** The text of a file; throws where it cannot be read. */
  readonly readFile: (path: string) => string;
  readonly hostname: () => string;
}

export interface LoadedConfig {
  readonly command: Command;
  /** `--cleanup` beside a running daemon, too. */
  readonly isCleanupForced: boolean;
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

/** A command that asks about a node, or makes EndpointSlices. */
export interface AskedSubcommand {
  /** An empty mode in a file is invalid for it. */
  readonly needsMode: boolean;
}

/**
 * Makes the configuration from flags and the file they may name. Without a subcommand, the flags say what to do.
 * Throws {@link ConfigError}.
 */
export function loadConfig(
  flags: FlagValues,
  world: ConfigWorld,
  subcommand?: AskedSubcommand,
): LoadedConfig {
  const flagOnly = readFlagOnlyOptions(flags);
  const path = flagOnly.texts.get("config") ?? "";
  const file = path === "" ? undefined : readConfigFile(path, world.readFile);
  const gathered = gatherSettings(file?.fields, flags);
  const command = subcommand === undefined ? commandOf(flagOnly) : "subcommand";
  const early = [...flagOnly.problems, ...gathered.problems, ...blankNodeName(flags)];
  const logFormat = gathered.settings["logging.format"];
  const build = (surroundings: ConfigSurroundings): Config =>
    built(early, buildConfig(gathered.settings, surroundings, gathered.nameOf), logFormat);
  // A clean-up removes the state of every mode.
  const isModeRequired =
    file !== undefined &&
    flagOnly.texts.get("cleanup") !== "true" &&
    subcommand?.needsMode !== false;
  const surroundings = surroundingsOf(flagOnly, world, isModeRequired);
  const config = build(surroundings);
  const writtenPath = flagOnly.texts.get("write-config-to") ?? "";
  // The deprecated port flags are left out of it, as upstream.
  const text = (): string =>
    configText(gathered.values, build({ hostname: surroundings.hostname, isModeRequired }));
  const { settings, nameOf } = gathered;
  const notices = [
    ...[...flagOnly.notices, ...(file?.notices ?? []), ...gathered.notices],
    ...gateNotices(settings.featureGates, nameOf("featureGates")),
    ...clusterNotices(gathered, flagOnly),
    ...emptyModeNotices(settings, command),
    ...portNotice(config),
  ];
  if (flagOnly.texts.get("strict") === "true") refuseIgnored(notices, logFormat);
  return {
    command,
    isCleanupForced: flagOnly.texts.get("kube-ipvs-force-cleanup") === "true",
    config: freeze(config),
    values: gathered.values,
    filePath: path,
    object: configObject(gathered.values, config),
    ...(writtenPath === "" ? {} : { written: { path: writtenPath, text: text() } }),
    notices,
  };
}

/** Everything that is wrong, reported once: a rule may stumble over a setting that is wrong by itself. */
function built(
  early: readonly ConfigProblem[],
  { config, problems }: ReturnType<typeof buildConfig>,
  logFormat: LogFormat,
): Config {
  const reported = new Set(early.map(({ path }) => path));
  const all = [...early, ...problems.filter(({ path }) => !reported.has(path))];
  if (all.length > 0) throw new ConfigError(all, logFormat);
  return config;
}

/** `--strict`: what would only be a warning ends the program. */
function refuseIgnored(notices: readonly ConfigNotice[], logFormat: LogFormat): void {
  const problems = notices.flatMap(({ event, keys, ignored }): readonly ConfigProblem[] => {
    if (ignored === undefined) return [];
    const { reason, meant } = keys;
    const hint = meant === undefined ? "" : `; did you mean ${meant}?`;
    return [
      { path: ignored, reason: `${event}${reason === undefined ? "" : `: ${reason}`}${hint}` },
    ];
  });
  if (problems.length > 0) throw new ConfigError(problems, logFormat);
}

/** Where several are asked for, the one that upstream takes first. */
function commandOf({ texts }: FlagOnlyValues): Command {
  if ((texts.get("write-config-to") ?? "") !== "") return "write-config";
  if (texts.get("cleanup") === "true") return "clean-up";
  return texts.get("init-only") === "true" ? "init-only" : "run";
}

function surroundingsOf(
  { texts }: FlagOnlyValues,
  world: ConfigWorld,
  isModeRequired: boolean,
): ConfigSurroundings {
  const masterUrl = texts.get("master");
  const healthzPort = texts.get("healthz-port");
  const metricsPort = texts.get("metrics-port");
  return {
    hostname: world.hostname(),
    isModeRequired,
    ...(masterUrl === undefined ? {} : { masterUrl }),
    ...(healthzPort === undefined ? {} : { healthzPort: Number(healthzPort) }),
    ...(metricsPort === undefined ? {} : { metricsPort: Number(metricsPort) }),
  };
}

/** A folder of manifests takes the place of a cluster: what names one counts for nothing beside it. */
function clusterNotices(
  { settings, nameOf }: GatheredSettings,
  { texts }: FlagOnlyValues,
): readonly ConfigNotice[] {
  if (settings["kubeIpvs.manifests"] === "") return [];
  const kubeconfig = "clientConnection.kubeconfig";
  const idle = [
    ...(settings[kubeconfig] === "" ? [] : [nameOf(kubeconfig)]),
    ...((texts.get("master") ?? "") === "" ? [] : ["--master"]),
  ];
  const reason = `objects are read from ${nameOf("kubeIpvs.manifests")}`;
  return idle.map((setting) => noEffectNotice(setting, reason));
}

/** Without it, an operator would ask kube-proxy's ports. */
function portNotice(config: Config): readonly ConfigNotice[] {
  if (!config.isObserveOnly) return [];
  const { metricsBindAddress: metrics, healthzBindAddress: healthz } = config;
  const text = ({ address, port }: ListenAddress): string => hostPort(address, port);
  const keys = {
    metricsBindAddress: text(metrics),
    ...(healthz === undefined ? {} : { healthzBindAddress: text(healthz) }),
  };
  return [
    {
      level: "info",
      event: "Observing only, listening on ports that kube-proxy does not use",
      keys,
    },
  ];
}

/** Freezes plain objects and arrays to the bottom. */
function freeze<T>(value: T): T {
  if (typeof value === "object" && value !== null) {
    for (const part of Object.values(value)) freeze(part);
    Object.freeze(value);
  }
  return value;
}
