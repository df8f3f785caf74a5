import { ConfigError } from "../../../src/config/config-error.ts";
import type { LoadedConfig } from "../../../src/config/load-config.ts";
import { loadConfig } from "../../../src/config/load-config.ts";

export const configPath = "/var/lib/kube-proxy/config.conf";

/** Flags as on the command line. A flag may have several values. */
export type FlagInput = Readonly<Record<string, string | readonly string[]>>;

/** Loads from flags alone, or from flags and a file with this text. */
export function load(flags: FlagInput, file?: string): LoadedConfig {
  const all = file === undefined ? flags : { config: configPath, ...flags };
  const values = Object.entries(all).map(([name, value]): [string, readonly string[]] => [
    name,
    [value].flat(),
  ]);
  const loaded = loadConfig(new Map(values), {
    hostname: () => "Node-From-OS",
    readFile: (path) => {
      if (file !== undefined && path === configPath) return file;
      throw new Error(`ENOENT: no such file or directory, open '${path}'`);
    },
  });
  // Settings without effect matter only for --strict, which is tested elsewhere.
  const notices = loaded.notices.map(({ level, event, keys }) => ({ level, event, keys }));
  return { ...loaded, notices };
}

/** Loads a KubeProxyConfiguration with these lines. The mode is IPVS unless the lines set a different one. */
export function loadFile(lines: string, flags: FlagInput = {}): LoadedConfig {
  const head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
  const mode = /^mode:/m.test(lines) ? {} : { "proxy-mode": "ipvs" };
  return load({ ...mode, ...flags }, head + lines);
}

/** Returns the message that a user sees. Fails if there is none. */
export function refusal(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  throw new Error("the configuration was accepted");
}
