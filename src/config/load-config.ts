import { hostPort } from "../base/ip.ts";
import { buildConfig, type ConfigContext } from "./build-config.ts";
import type { Command, Config, ListenAddress, LogFormat } from "./config.ts";
import type { ConfigState } from "./config-change.ts";
import { ConfigError, type ConfigProblem } from "./config-error.ts";
import { readConfigFile } from "./config-file.ts";
import { configObject, configText } from "./config-text.ts";
import { gateNotices } from "./feature-gates.ts";
import type { Settings } from "./fields.ts";
import {
  type FlagValues,
  type GatheredSettings,
  gatherSettings,
  settingsOf,
} from "./gather-settings.ts";
import { type ConfigNotice, noEffectNotice } from "./notice.ts";
import { emptyModeNotices } from "./proxy-mode.ts";

/** What configuration reads besides flags. */
export interface ConfigInputs {
  /** The text of a file; throws where it cannot be read. */
  readonly readFile: (path: string) => string;
  readonly hostname: () => string;
}

export interface LoadedConfig extends ConfigState {
  readonly command: Command;
  /** `--cleanup` beside a running daemon, too. */
  readonly isCleanupForced: boolean;
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
  inputs: ConfigInputs,
  subcommand?: AskedSubcommand,
): LoadedConfig {
  const path = flags.get("config")?.at(-1) ?? "";
  const file = path === "" ? undefined : readConfigFile(path, inputs.readFile);
  const gathered = gatherSettings(file?.fields, flags);
  const { settings, nameOf, values } = gathered;
  const command = subcommand === undefined ? commandOf(settings) : "subcommand";
  const early = [...gathered.problems, ...blankNodeName(flags)];
  const logFormat = settings["logging.format"];
  const build = (context: ConfigContext): Config =>
    built(early, buildConfig(settings, context, nameOf), logFormat);
  // A clean-up removes the state of every mode.
  const isModeRequired =
    file !== undefined && !settings["--cleanup"] && subcommand?.needsMode !== false;
  const context = contextOf(settings, inputs, isModeRequired);
  const config = build(context);
  const writtenPath = settings["--write-config-to"];
  // The deprecated port flags are left out of it, as upstream.
  const text = (): string =>
    configText(values, build({ hostname: context.hostname, isModeRequired }));
  const notices = [
    ...[...(file?.notices ?? []), ...gathered.notices],
    ...gateNotices(settings.featureGates, nameOf("featureGates")),
    ...clusterNotices(gathered),
    ...emptyModeNotices(settings, command),
    ...portNotice(config),
  ];
  if (settings["--strict"]) refuseIgnored(notices, logFormat);
  return {
    command,
    isCleanupForced: settings["--kube-ipvs-force-cleanup"],
    config: freeze(config),
    values,
    rebuild: (changed) =>
      freeze(built([], buildConfig(settingsOf(changed), context, nameOf), logFormat)),
    filePath: path,
    object: configObject(values, config),
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
function commandOf(settings: Settings): Command {
  if (settings["--write-config-to"] !== "") return "write-config";
  if (settings["--cleanup"]) return "clean-up";
  return settings["--init-only"] ? "init-only" : "run";
}

function contextOf(
  settings: Settings,
  inputs: ConfigInputs,
  isModeRequired: boolean,
): ConfigContext {
  return {
    hostname: inputs.hostname(),
    isModeRequired,
    masterUrl: settings["--master"],
    healthzPort: settings["--healthz-port"],
    metricsPort: settings["--metrics-port"],
  };
}

/** White space alone is a mistake (an unset variable in a manifest), not "no override". */
function blankNodeName(flags: FlagValues): readonly ConfigProblem[] {
  const value = flags.get("hostname-override")?.at(-1) ?? "";
  if (value === "" || value.trim() !== "") return [];
  return [{ path: "--hostname-override", value, reason: "must not be blank" }];
}

/** A folder of manifests takes the place of a cluster: what names one counts for nothing beside it. */
function clusterNotices({ settings, nameOf }: GatheredSettings): readonly ConfigNotice[] {
  if (settings["kubeIpvs.manifests"] === "") return [];
  const kubeconfig = "clientConnection.kubeconfig";
  const idle = [
    ...(settings[kubeconfig] === "" ? [] : [nameOf(kubeconfig)]),
    ...(settings["--master"] === "" ? [] : ["--master"]),
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
