import { otherVersion } from "../answer/answer.ts";
import type { FlagValues } from "../config/gather-settings.ts";
import { type ConfigInputs, type LoadedConfig, loadConfig } from "../config/load-config.ts";
import { askDaemon } from "../daemon/operator/ask-daemon.ts";
import { failureText } from "./source.ts";

/** Flags that locate the daemon's socket or configure logging, but do not change what a daemon does. */
const neutralFlags: ReadonlySet<string> = new Set([
  "kube-ipvs-lock-name",
  "kube-ipvs-operator-socket",
  "logging-format",
  "v",
]);

/**
 * Returns the running daemon's configuration, or `given` if flags configure anything or no daemon is running. If the
 * daemon does not answer, reports this on stderr and returns `given`. Throws if this program does not accept the
 * configuration, because the daemon has a different version.
 */
export async function runningConfig(
  given: LoadedConfig,
  values: FlagValues,
  inputs: ConfigInputs & { readonly writeErr: (text: string) => void },
): Promise<LoadedConfig> {
  if (![...values.keys()].every((name) => neutralFlags.has(name))) return given;
  const path = given.config.operatorSocket;
  const asked = await askDaemon(path, { kind: "Configuration", target: "/v1/config" });
  if (asked.kind === "absent") return given;
  if (asked.kind === "failed") {
    inputs.writeErr(`${failureText(path, asked.reason)}; using flags and defaults\n`);
    return given;
  }
  // The notices are dropped because the daemon has logged them. The command keeps its own logging settings, and asks
  // the same socket again.
  const { logging: _, ...configuration } = asked.answer.configuration;
  const readFile = (): string => JSON.stringify(configuration);
  const { logging } = given.config;
  try {
    const flags = new Map([["config", [path]]]);
    const loaded = loadConfig(flags, { ...inputs, readFile }, { needsMode: true });
    return { ...loaded, notices: [], config: { ...loaded.config, logging, operatorSocket: path } };
  } catch (error) {
    throw otherVersion(error);
  }
}
