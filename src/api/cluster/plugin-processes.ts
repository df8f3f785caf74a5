import type { KubeConfig } from "@kubernetes/client-node";

/** The part of a child process that is used here. */
interface Plugin {
  readonly pid?: number;
  once(event: "close", listener: () => void): unknown;
}
type StartPlugin = (command: string, args: unknown, options: object) => Plugin;

/** The library's field for the function that starts a plugin. A test with a plugin that hangs fails if it is renamed. */
const startField = "execFn";

/**
 * Credential plugins (exec) that run now. The library starts them without a time limit and with an open standard input, so a plugin
 * that asks for a password waits forever. Here each one is a process group of its own, which can be killed with its children.
 */
export class PluginProcesses {
  readonly #running = new Set<Plugin>();

  /** Follows the plugins that this configuration starts. */
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
        // It ended meanwhile.
      }
    }
  }
}
