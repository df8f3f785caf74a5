import type { Clock } from "../../base/clock.ts";
import type { ApiConnection, RequestObserver } from "../connection.ts";
import {
  type Kubeconfig,
  kubeconfigOfMaster,
  kubeconfigOfPod,
  readKubeconfigFile,
} from "./kubeconfig-file.ts";

export interface ConnectionOptions {
  /** Path of a kubeconfig; empty: none. */
  readonly kubeconfig: string;
  /** Address of the API server, overriding the kubeconfig's; empty: none. */
  readonly master: string;
  /** `kube-ipvs/1.0.0 (linux/x64)`. */
  readonly userAgent: string;
}

/**
 * Opens the way to the API server: by a kubeconfig, by an address alone, or from inside a pod where neither is
 * given. Throws ApiError when that is not possible on this machine; whether the server can be reached shows
 * with the first request.
 */
export async function openConnection(
  dependencies: {
    readonly clock: Clock;
    readonly environment: Readonly<Record<string, string | undefined>>;
    /** Absent: nobody counts requests. */
    readonly observer?: RequestObserver;
  },
  options: ConnectionOptions,
): Promise<ApiConnection> {
  const { environment, ...rest } = dependencies;
  const kubeconfig = await readKubeconfig(options, environment);
  // Loaded late: who reads manifests shall not pay for the client library.
  const { ClientConfig } = await import("./client-config.ts");
  const { Credentials } = await import("./credentials.ts");
  const { HttpConnection } = await import("./http-connection.ts");
  const makeConfig = (): InstanceType<typeof ClientConfig> =>
    new ClientConfig(kubeconfig, options.master, environment);
  const credentials = new Credentials(rest.clock, makeConfig);
  await credentials.current();
  return new HttpConnection(credentials, { ...rest, userAgent: options.userAgent });
}

function readKubeconfig(
  { kubeconfig, master }: ConnectionOptions,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<Kubeconfig> {
  if (kubeconfig !== "") return readKubeconfigFile(kubeconfig);
  if (master !== "") return Promise.resolve(kubeconfigOfMaster(master));
  return kubeconfigOfPod(environment);
}
