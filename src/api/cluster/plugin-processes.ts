import type { KubeConfig } from "@kubernetes/client-node";

/** The part of a child process that this file uses. */
interface Plugin {
  readonly pid?: number;
  once(event: "close", listener: () => void): unknown;
}
type StartPlugin = (command: string, args: unknown, options: object) => Plugin;

/**
 * The library's field that contains the function that starts a plugin. A test with a hanging plugin detects a rename.
 */
const startField = "execFn";

/**
 * The running credential plugins (exec). The library starts plugins without a time limit and with an open standard
 * input, so a plugin that prompts for a password would wait forever. This class starts each plugin in its own process
 * group so that it can be killed together with its children.
 */
export class PluginProcesses {
  readonly #running = new Set<Plugin>();

  /** Tracks the plugins that this configuration starts. */
  follow(config: KubeConfig): void {
    for (const authenticator of Reflect.get(config, "authenticators") as readonly object[]) {
      const start = Reflect.get(authenticator, startField) as StartPlugin | undefined;
      if (start === undefined) continue;
      Reflect.set(authenticator, startField, (command: string, args: unknown, options: object) => {
        const stdio = ["ignore", "pipe", "pipe"];
        const plugin = start(command, args, { ...options, detached: true, stdio });
        this.#running.add(plugin);
        plugin.once("close", () => this.#running.delete(plugin));
        return plugin;
      });
    }
  }

  kill(): void {
    for (const { pid } of this.#running) {
      try {
        if (pid !== undefined) process.kill(-pid, "SIGKILL");
      } catch {
        // The plugin has already exited.
      }
    }
  }
}
