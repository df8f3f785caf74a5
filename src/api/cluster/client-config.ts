/**
 * The one file that imports @kubernetes/client-node, and that is imported only when a cluster is used: it is
 * most of the program's memory. Used: reading kubeconfigs, TLS material, exec and other auth plugins, agents
 * for proxies. Not used: its requests, informers and object types.
 */
import { Agent as HttpAgent } from "node:http";
import { type AgentOptions, Agent as HttpsAgent, type RequestOptions } from "node:https";
import { type Cluster, KubeConfig, type User } from "@kubernetes/client-node";
import { errorText } from "../../base/error-text.ts";
import { pathOf } from "../decode/fields.ts";
import { printable } from "../refusals.ts";
import { proxyFor } from "./environment-proxy.ts";
import { type ImpersonationHeaders, impersonationHeaders } from "./impersonation.ts";
import { invalidKubeconfig, type Kubeconfig, withoutQuotes } from "./kubeconfig-file.ts";

/** TLS options that belong to a cluster and a user; equal ones can share connections. */
export type TlsMaterial = Pick<
  RequestOptions,
  "ca" | "cert" | "key" | "servername" | "rejectUnauthorized"
>;

/** What a request needs beside its address. */
export interface ClientMaterial {
  /** Several values stand for several headers of one name. */
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly tls: TlsMaterial;
}

/** A kubeconfig's current cluster and user. */
export class ClientConfig {
  /** `https://10.0.0.1:6443`, without a slash at the end. */
  readonly server: string;
  /** The name that the server's certificate must carry: tls-server-name, or the host of the address. */
  readonly certifiedName: string;
  /** Of the current user; `undefined` when it has none. */
  readonly tokenFile: string | undefined;
  readonly #config: KubeConfig;
  readonly #cluster: Cluster;
  readonly #impersonation: ImpersonationHeaders;

  /** `master` overrides the server's address unless it is empty; `environment` may name a proxy. */
  constructor(
    kubeconfig: Kubeconfig,
    master: string,
    environment: Readonly<Record<string, string | undefined>> = {},
  ) {
    const { origin } = kubeconfig;
    const config = loaded(kubeconfig);
    const cluster = config.getCurrentCluster();
    if (cluster === null)
      throw invalidKubeconfig(origin, "it has no current context that names a cluster");
    this.server = serverOf(master === "" ? cluster.server : master, origin);
    this.certifiedName =
      cluster.tlsServerName || new URL(this.server).hostname.replace(/^\[|\]$/g, "");
    // Over plain HTTP there is nothing to verify; the library refuses such a server otherwise.
    const skipTLSVerify = cluster.skipTLSVerify || this.server.startsWith("http:");
    const proxyUrl = cluster.proxyUrl || proxyFor(new URL(this.server), environment);
    this.#cluster = {
      ...cluster,
      server: this.server,
      skipTLSVerify,
      ...(proxyUrl === undefined ? {} : { proxyUrl }),
    };
    const user = config.getCurrentUser() ?? { name: "nobody" };
    this.tokenFile = kubeconfig.tokenFiles.get(user.name);
    this.#impersonation = impersonationHeaders(kubeconfig, user.name);
    this.#config = configOf(this.#cluster, withExecInfo(user, this.#cluster));
  }

  /** Reads files and asks plugins; what they throw may quote their output. */
  async read(): Promise<ClientMaterial> {
    const options: RequestOptions = {};
    await this.#config.applyToHTTPSOptions(options);
    const { ca, cert, key, servername, auth } = options;
    const headers = new Map<string, string>();
    for (const [name, value] of Object.entries(options.headers ?? {})) {
      headers.set(name.toLowerCase(), String(value).trim());
    }
    // The library keeps a password apart from the other headers.
    if (typeof auth === "string") {
      headers.set("authorization", `Basic ${Buffer.from(auth).toString("base64")}`);
    }
    const material = { ca, cert, key, servername };
    const given = Object.entries(material).filter(([, value]) => value !== undefined);
    const tls: TlsMaterial = Object.fromEntries(given);
    return {
      headers: { ...Object.fromEntries(headers), ...this.#impersonation },
      tls: { ...tls, rejectUnauthorized: !this.#cluster.skipTLSVerify },
    };
  }

  /** Connections with this TLS material, through the cluster's proxy if it has one. */
  async agentFor(tls: TlsMaterial): Promise<HttpAgent> {
    if (this.#cluster.proxyUrl === undefined || this.#cluster.proxyUrl === null) {
      const options: AgentOptions = { keepAlive: true, maxFreeSockets: 4, ...tls };
      return this.server.startsWith("https:")
        ? new HttpsAgent(options)
        : new HttpAgent({ keepAlive: true, maxFreeSockets: 4 });
    }
    // The library makes agents for proxies, and keeps one per configuration object: new material, new object.
    const options: RequestOptions = {};
    await configOf(this.#cluster, userOf(tls)).applyToHTTPSOptions(options);
    return options.agent as HttpAgent;
  }
}

function loaded({ object, folder, origin }: Kubeconfig): KubeConfig {
  const config = new KubeConfig();
  try {
    config.loadFromString(JSON.stringify(object ?? {}));
    config.makePathsAbsolute(folder);
  } catch (error) {
    throw invalidKubeconfig(origin, reasonOf(error));
  }
  return config;
}

/** A YAMLException quotes the line it stopped at in its message and its cause, and that line may contain a token. */
function reasonOf(error: unknown): string {
  const { name = "", reason = "" } = error as { name?: string; reason?: string };
  return name === "YAMLException" ? withoutQuotes(reason) : errorText(error);
}

function configOf(cluster: Cluster, user: User): KubeConfig {
  const config = new KubeConfig();
  config.loadFromClusterAndUser(cluster, user);
  return config;
}

function serverOf(server: string, origin: string): string {
  const url = URL.parse(server.includes("://") ? server : `http://${server}`);
  if (url === null || !["http:", "https:"].includes(url.protocol)) {
    const why = `${printable(server)} is not a URL such as https://10.0.0.1:6443`;
    throw invalidKubeconfig(origin, why);
  }
  return url.href.replace(/\/$/, "");
}

function userOf({ cert, key }: TlsMaterial): User {
  const encode = (text: unknown): string => Buffer.from(text as string | Buffer).toString("base64");
  return {
    name: "proxied",
    ...(cert === undefined ? {} : { certData: encode(cert) }),
    ...(key === undefined ? {} : { keyData: encode(key) }),
  };
}

/** Exec plugins expect to be given which version of their API is spoken (client.authentication.k8s.io). */
function withExecInfo(user: User, cluster: Cluster): User {
  const exec: unknown = user.exec;
  const apiVersion = pathOf(exec, "apiVersion");
  if (typeof exec !== "object" || exec === null || typeof apiVersion !== "string") return user;
  const wantsCluster = pathOf(exec, "provideClusterInfo") === true;
  const clusterInfo = {
    server: cluster.server,
    ...(cluster.caData === undefined ? {} : { "certificate-authority-data": cluster.caData }),
  };
  const spec = { interactive: false, ...(wantsCluster ? { cluster: clusterInfo } : {}) };
  const value = JSON.stringify({ apiVersion, kind: "ExecCredential", spec });
  const env = pathOf(exec, "env");
  const variables: readonly unknown[] = Array.isArray(env) ? env : [];
  return {
    ...user,
    exec: { ...exec, env: [...variables, { name: "KUBERNETES_EXEC_INFO", value }] },
  };
}
