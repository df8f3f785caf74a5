import type { ApiConnection } from "../connection.ts";
import type { Credentials } from "./credentials.ts";
import type { HttpConnectionOptions } from "./http-connection.ts";
import {
  type Kubeconfig,
  kubeconfigOfMaster,
  kubeconfigOfPod,
  readKubeconfigFile,
} from "./kubeconfig-file.ts";

export interface ConnectionOptions {
  /** Path of a kubeconfig. Empty if none is configured. */
  readonly kubeconfig: string;
  /** Address of the API server; overrides the one in the kubeconfig. Empty if none is configured. */
  readonly master: string;
  /** For example `kube-ipvs/1.0.0 (linux/x64)`. */
  readonly userAgent: string;
}

interface Dependencies extends Omit<HttpConnectionOptions, "userAgent"> {
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/**
 * Opens a connection to the API server with a kubeconfig, an address alone, or otherwise a pod's service account.
 * Throws ApiError if the local configuration does not allow that. Does not contact the server: the first request shows
 * whether it is reachable.
 */
export async function openConnection(
  dependencies: Dependencies,
  options: ConnectionOptions,
): Promise<ApiConnection> {
  const { environment, ...rest } = dependencies;
  const credentials = await openCredentials({ clock: rest.clock, environment }, options);
  const { HttpConnection } = await import("./http-connection.ts");
  return new HttpConnection(credentials, { ...rest, userAgent: options.userAgent });
}

/** Credentials for requests to the API server. Throws like {@link openConnection}. */
export async function openCredentials(
  { clock, environment }: Pick<Dependencies, "clock" | "environment">,
  options: Pick<ConnectionOptions, "kubeconfig" | "master">,
): Promise<Credentials> {
  const kubeconfig = await readKubeconfig(options, environment);
  // Loaded on demand, because the manifest source does not need the client library.
  const { ClientConfig } = await import("./client-config.ts");
  const { Credentials } = await import("./credentials.ts");
  const makeConfig = (): InstanceType<typeof ClientConfig> =>
    new ClientConfig(kubeconfig, options.master, environment);
  const credentials = new Credentials(clock, makeConfig);
  await credentials.current();
  return credentials;
}

function readKubeconfig(
  { kubeconfig, master }: Pick<ConnectionOptions, "kubeconfig" | "master">,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<Kubeconfig> {
  if (kubeconfig !== "") return readKubeconfigFile(kubeconfig);
  if (master !== "") return Promise.resolve(kubeconfigOfMaster(master));
  return kubeconfigOfPod(environment);
}
