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
  /** The file's text from which `initial` was built. The file may have changed since then. */
  readonly text: string;
  readonly initial: ConfigState;
  /** Reads and validates the file, with the same flags as at startup. Logs warnings to `log`. Throws ConfigError. */
  read(log: Logger): ConfigState;
}

export interface ConfigReloadDependencies {
  readonly clock: Clock;
  readonly log: Logger;
  /** Replaces the running configuration with this one. Rejects if it cannot be applied. */
  readonly apply: (config: Config, values: ConfigState["values"]) => Promise<void>;
  /** Rejects if the program could not start with this configuration on this node. */
  readonly check: (config: Config) => Promise<void>;
  /** Ends the program. */
  readonly fail: (error: Error) => void;
}

/**
 * If this setting changes, the program exits even if configReload is enabled, because all rules and sets are moved to
 * the other backend only at startup. Open connections continue.
 */
const movingSetting = "kubeIpvs.rules";

/**
 * Watches the configuration file. A change is applied if configReload is enabled; otherwise it ends the program through
 * `fail`. A file that is invalid or does not work on this node has no effect, because restarting with it would leave
 * the node without a proxy. Throws if the file cannot be watched. Returns a function that stops watching.
 */
export function followConfigFile(
  source: ConfigFileSource,
  dependencies: ConfigReloadDependencies,
): () => void {
  const { path, text, initial } = source;
  const { log } = dependencies;
  const fail = (error: Error): void => {
    stop();
    dependencies.fail(error);
  };
  const reload = new ConfigReload(source, { ...dependencies, fail });
  const inode = inodeOf(path);
  const exit = async (): Promise<void> => {
    // As in kube-proxy, a file that replaces this one is ignored, so a ConfigMap edit does not restart the program
    // on all nodes at the same time.
    if (inodeOf(path) === inode) await reload.exit();
  };
  const run = initial.config.configReload ? () => reload.run() : exit;
  const onText = (): void => background(run(), log, "configuration reload");
  const stop = watchText(path, text, { ...dependencies, onText });
  return stop;
}

function inodeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.ino;
}

/**
 * Applies the changed settings that do not require a restart, and logs the names of the others. If the file is invalid
 * or cannot be applied, nothing changes and the reason is logged.
 */
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

  run(): Promise<void> {
    return this.#try(() => this.#reload());
  }

  /** Ends the program, which reads the file when it restarts. */
  exit(): Promise<void> {
    return this.#try(() => this.#exit(this.#source.read(silentLogger), "was written"));
  }

  #try(change: () => Promise<void>): Promise<void> {
    return this.#exclusive.run(async () => {
      try {
        await change();
      } catch (error) {
        const { path } = this.#source;
        const { log } = this.#dependencies;
        log.error("Cannot apply changed configuration file", { path, err: error });
      }
    });
  }

  async #reload(): Promise<void> {
    const { log, apply } = this.#dependencies;
    const { path } = this.#source;
    const read = this.#source.read(log);
    const { state, applied, needRestart } = changeConfig(this.#running, read);
    if (needRestart.includes(movingSetting)) {
      return this.#exit(read, `has a different value of ${movingSetting}`);
    }
    if (applied.length > 0) await apply(state.config, state.values);
    this.#running = state;
    log.info("Configuration file reloaded", { path, applied });
    if (needRestart.length === 0) return;
    log.warn("Changed settings require a restart", { settings: needRestart });
  }

  async #exit({ config }: ConfigState, why: string): Promise<void> {
    await this.#dependencies.check(config);
    const { path } = this.#source;
    this.#dependencies.fail(new Error(`Configuration file ${path} ${why}, exiting to restart`));
  }
}
