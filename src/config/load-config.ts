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

/** Inputs of the configuration besides flags. */
export interface ConfigInputs {
  /** Returns the text of a file; throws if it cannot be read. */
  readonly readFile: (path: string) => string;
  readonly hostname: () => string;
}

export interface LoadedConfig extends ConfigState {
  readonly command: Command;
  /** Whether `--cleanup` runs even while a daemon is running. */
  readonly isCleanupForced: boolean;
  /** The path given with `--config`. Empty if that flag is not given. */
  readonly filePath: string;
  /** The text of that file. */
  readonly fileText: string;
  /** The effective configuration, as a KubeProxyConfiguration v1alpha1. */
  readonly object: Readonly<Record<string, unknown>>;
  /** The file to write for `--write-config-to`. */
  readonly written?: { readonly path: string; readonly text: string };
  /** Notices to log once logging has been set up. */
  readonly notices: readonly ConfigNotice[];
}

/** A subcommand, which does not run the proxy. */
export interface AskedSubcommand {
  /** Whether an empty mode in a file is invalid for this subcommand. */
  readonly needsMode: boolean;
}

/**
 * Builds the configuration from the flags and the file given with `--config`. Without a subcommand, flags choose the
 * command. Throws {@link ConfigError}.
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
  // Clean-up removes the state of every mode.
  const isModeRequired =
    file !== undefined && !settings["--cleanup"] && subcommand?.needsMode !== false;
  const context = contextOf(settings, inputs, isModeRequired);
  const config = build(context);
  const writtenPath = settings["--write-config-to"];
  // As in kube-proxy, the written file ignores the deprecated port flags.
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
    fileText: file?.text ?? "",
    object: configObject(values, config),
    ...(writtenPath === "" ? {} : { written: { path: writtenPath, text: text() } }),
    notices,
  };
}

/**
 * Throws all problems together. Names each setting only once, although an invalid setting may also be part of an
 * invalid combination.
 */
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

/** Implements `--strict`: turns notices about ignored settings into errors. */
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

/** If flags request several commands, chooses the one that kube-proxy checks first. */
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

/** Rejects a name that consists of whitespace, which is a mistake (such as an unset variable in a manifest). */
function blankNodeName(flags: FlagValues): readonly ConfigProblem[] {
  const value = flags.get("hostname-override")?.at(-1) ?? "";
  if (value === "" || value.trim() !== "") return [];
  return [{ path: "--hostname-override", value, reason: "must not be blank" }];
}

/** Reports settings that have no effect because objects are read from manifests instead of a cluster. */
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

/** Reports the ports of observe-only mode, because they differ from the configured ports. */
function portNotice(config: Config): readonly ConfigNotice[] {
  if (!config.observeOnly) return [];
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

/** Freezes plain objects and arrays recursively. */
function freeze<T>(value: T): T {
  if (typeof value === "object" && value !== null) {
    for (const part of Object.values(value)) freeze(part);
    Object.freeze(value);
  }
  return value;
}
