import { statSync } from "node:fs";
import { background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import { Exclusive } from "../../base/exclusive.ts";
import { type Logger, silentLogger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import { type ConfigState, changeConfig } from "../../config/config-change.ts";
import { watchText } from "./config-watch.ts";

/** A configuration file that can be read again. */
export interface ConfigFileSource {
  readonly path: string;
  /** The configuration at startup. */
  readonly initial: ConfigState;
  /** Reads and validates the file, with the same flags as at startup. Logs warnings to `log`. Throws ConfigError. */
  read(log: Logger): ConfigState;
}

export interface ConfigReloadDependencies {
  readonly clock: Clock;
  readonly log: Logger;
  /** Applies a configuration instead of the running one. Rejects if it cannot be applied. */
  readonly apply: (config: Config, values: ConfigState["values"]) => Promise<void>;
}

/**
 * Watches the configuration file. Depending on the configuration, a change ends the program through `fail` or is
 * applied. An invalid file does neither because restarting with it would leave the node without a proxy. Throws if the
 * file cannot be watched. Returns a function that stops watching.
 */
export function followConfigFile(
  source: ConfigFileSource,
  dependencies: ConfigReloadDependencies & { readonly fail: (error: Error) => void },
): () => void {
  const { path, initial } = source;
  const reload = new ConfigReload(source, dependencies);
  const inode = inodeOf(path);
  const exit = (): void => {
    // As in kube-proxy, a file that replaces this one is ignored, so a ConfigMap edit does not restart the program
    // on all nodes at the same time.
    if (inodeOf(path) !== inode || !isValid(source, dependencies.log)) return;
    stop();
    dependencies.fail(new Error(`Configuration file ${path} was written, exiting to restart`));
  };
  const onText = initial.config.configReload
    ? () => background(reload.run(), dependencies.log, "configuration reload")
    : exit;
  const stop = watchText(path, { ...dependencies, onText });
  return stop;
}

function inodeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.ino;
}

function isValid(source: ConfigFileSource, log: Logger): boolean {
  try {
    source.read(silentLogger);
    return true;
  } catch (error) {
    logInvalid(log, source.path, error);
    return false;
  }
}

function logInvalid(log: Logger, path: string, error: unknown): void {
  log.error("Cannot apply changed configuration file", { path, err: error });
}

/** Applies the changed settings that do not require a restart, and logs the names of the others. */
export class ConfigReload {
  readonly #source: ConfigFileSource;
  readonly #dependencies: ConfigReloadDependencies;
  readonly #exclusive = new Exclusive();
  #running: ConfigState;

  constructor(source: ConfigFileSource, dependencies: ConfigReloadDependencies) {
    this.#source = source;
    this.#dependencies = dependencies;
    this.#running = source.initial;
  }

  /** Reads and applies the file. If it is invalid or cannot be applied, nothing changes and the reason is logged. */
  run(): Promise<void> {
    return this.#exclusive.run(() => this.#run());
  }

  async #run(): Promise<void> {
    const { log, apply } = this.#dependencies;
    const { path } = this.#source;
    try {
      const { state, applied, needRestart } = changeConfig(this.#running, this.#source.read(log));
      if (applied.length > 0) await apply(state.config, state.values);
      this.#running = state;
      log.info("Configuration file reloaded", { path, applied });
      if (needRestart.length === 0) return;
      log.warn("Changed settings require a restart", { settings: needRestart });
    } catch (error) {
      logInvalid(log, path, error);
    }
  }
}
