import { statSync } from "node:fs";
import { background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import { Exclusive } from "../../base/exclusive.ts";
import { type Logger, silentLogger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import { type ConfigState, changeConfig } from "../../config/config-change.ts";
import { watchText } from "./config-watch.ts";

/** A configuration file that may be read again. */
export interface ConfigFileSource {
  readonly path: string;
  /** What it said at start. */
  readonly initial: ConfigState;
  /** Reads and checks it, with the same flags; what it reports goes to the log. Throws ConfigError. */
  read(log: Logger): ConfigState;
}

export interface ConfigReloadDependencies {
  readonly clock: Clock;
  readonly log: Logger;
  /** Puts a configuration in the place of the running one; rejects where it cannot work. */
  readonly apply: (config: Config, values: ConfigState["values"]) => Promise<void>;
}

/**
 * Watches the configuration file as the configuration says: a change ends the program by `fail`, or is
 * applied. An invalid file does neither, since a program that restarts with it would leave the node without a proxy.
 * Throws if the file cannot be watched. Returns the stop.
 */
export function followConfigFile(
  source: ConfigFileSource,
  dependencies: ConfigReloadDependencies & { readonly fail: (error: Error) => void },
): () => void {
  const { path, initial } = source;
  const reload = new ConfigReload(source, dependencies);
  const inode = inodeOf(path);
  const exit = (): void => {
    // As with kube-proxy, another file under the name is ignored: a ConfigMap edit must not restart every node at once.
    if (inodeOf(path) !== inode || !isValid(source, dependencies.log)) return;
    stop();
    dependencies.fail(new Error(`Configuration file ${path} was written, exiting to restart`));
  };
  const onText = initial.config.isConfigReloaded
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

/** Applies what a changed file says, as far as that can be done alive, and names the rest. */
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

  /** A file that is wrong, and one that cannot be applied, change nothing; the log says why. */
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
