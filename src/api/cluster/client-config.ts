/**
 * The only file that imports @kubernetes/client-node. It is loaded only if a cluster is used, because the library
 * accounts for most of the program's memory. docs/decisions/0017 lists which parts of the library are used, and why its
 * informers are not.
 */
import { Agent as HttpAgent } from "node:http";
import { type AgentOptions, Agent as HttpsAgent, type RequestOptions } from "node:https";
import { resolve } from "node:path";
import { type Cluster, KubeConfig, type User } from "@kubernetes/client-node";
import { errorText } from "../../base/error-text.ts";
import { isLoopback, parseIpAddress } from "../../base/ip.ts";
import { fieldOf, pathOf } from "../decode/fields.ts";
import { printable } from "../refusals.ts";
import { proxyFor } from "./environment-proxy.ts";
import { invalidKubeconfig, type Kubeconfig, withoutQuotes } from "./kubeconfig-file.ts";
import { PluginProcesses } from "./plugin-processes.ts";

/** The TLS options for a cluster and a user. Requests with equal options can share connections. */
export type TlsMaterial = Pick<
  RequestOptions,
  "ca" | "cert" | "key" | "servername" | "rejectUnauthorized"
>;

/** The headers and TLS options for requests. */
export interface ClientMaterial {
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: TlsMaterial;
}

/** A kubeconfig's current cluster and user. */
export class ClientConfig {
  /** URL of the server without a trailing slash, such as `https://10.0.0.1:6443`. */
  readonly server: string;
  /** The name that the server's certificate must contain: tls-server-name, or the host in the URL. */
  readonly certifiedName: string;
  readonly #origin: string;
  readonly #cluster: Cluster;
  readonly #user: User;
  readonly #plugins = new PluginProcesses();
  /** Caches a plugin's credentials until they expire. */
  readonly #config: KubeConfig;

  /** A non-empty `master` overrides the server's address. `environment` may name a proxy. */
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
    const user = userOf(config, kubeconfig);
    const address = master === "" ? cluster.server : master;
    this.#origin = origin;
    this.server = serverOf(address, { origin, isTlsMeant: isTlsMeant(cluster, user) });
    const host = new URL(this.server).hostname.replace(/^\[|\]$/g, "");
    this.certifiedName = String(cluster.tlsServerName ?? "") || host;
    // Plain HTTP has nothing to verify, and the library rejects such servers unless verification is skipped.
    const skipTLSVerify = cluster.skipTLSVerify || this.server.startsWith("http:");
    const proxyUrl = cluster.proxyUrl || proxyFor(new URL(this.server), environment);
    if (proxyUrl && URL.parse(proxyUrl) === null)
      throw invalidKubeconfig(
        origin,
        "the proxy's address is not a URL such as http://10.0.0.1:3128",
      );
    this.#cluster = {
      ...cluster,
      server: this.server,
      skipTLSVerify,
      ...(proxyUrl === undefined ? {} : { proxyUrl }),
    };
    this.#user = withExecInfo(user, this.#cluster);
    this.#config = configOf(this.#cluster, this.#user);
    this.#plugins.follow(this.#config);
  }

  /** Reads files and runs plugins. Errors may quote a plugin's output. */
  async read(): Promise<ClientMaterial> {
    const options: RequestOptions = {};
    // The library would cache a token file for one minute, in addition to the cache in `Credentials`.
    const keeps = this.#user.authProvider?.name !== tokenFileProvider;
    const config = keeps ? this.#config : configOf(this.#cluster, this.#user);
    await config.applyToHTTPSOptions(options);
    const { ca, cert, key, servername, auth } = options;
    const headers = new Map<string, string>();
    for (const [name, value] of Object.entries(options.headers ?? {})) {
      headers.set(name.toLowerCase(), String(value).trim());
    }
    // The library returns basic authentication separately from the other headers.
    if (typeof auth === "string") {
      headers.set("authorization", `Basic ${Buffer.from(auth).toString("base64")}`);
    }
    const material = { ca, cert, key, servername };
    const given = Object.entries(material).filter(([, value]) => value !== undefined);
    const tls: TlsMaterial = Object.fromEntries(given);
    if (headers.has("authorization")) this.#refusePlainHttp();
    return {
      headers: Object.fromEntries(headers),
      tls: { ...tls, rejectUnauthorized: !this.#cluster.skipTLSVerify },
    };
  }

  /** Kills the running plugins and their children. Pending calls of {@link read} reject. */
  killPlugins(): void {
    this.#plugins.kill();
  }

  /** Throws if credentials would be sent without TLS, where anyone on the network path could read them. */
  #refusePlainHttp(): void {
    const { protocol, hostname } = new URL(this.server);
    if (protocol === "https:" || (isThisMachine(hostname) && !this.#cluster.proxyUrl)) return;
    const why = `it would send credentials to ${this.server} without TLS; use https://, or remove the credentials`;
    throw invalidKubeconfig(this.#origin, why);
  }

  /** Creates an agent for connections with these TLS options, through the cluster's proxy if there is one. */
  async agentFor(tls: TlsMaterial): Promise<HttpAgent> {
    if (this.#cluster.proxyUrl === undefined || this.#cluster.proxyUrl === null) {
      const options: AgentOptions = { keepAlive: true, maxFreeSockets: 4, ...tls };
      return this.server.startsWith("https:")
        ? new HttpsAgent(options)
        : new HttpAgent({ keepAlive: true, maxFreeSockets: 4 });
    }
    // The library creates agents for proxies and caches one per configuration object. New TLS options need a new
    // object.
    const options: RequestOptions = {};
    await configOf(this.#cluster, proxiedUser(tls)).applyToHTTPSOptions(options);
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

/** Returns the message without text from the file, because a YAMLException quotes a line that may contain a token. */
function reasonOf(error: unknown): string {
  // The library checks presence but not types. Its TypeErrors name one of its own fields and never contain values.
  if (error instanceof TypeError)
    return `wrong field type; must be text, a list or an object: ${error.message}`;
  const { name = "", reason = "" } = error as { name?: string; reason?: string };
  return name === "YAMLException" ? withoutQuotes(reason) : errorText(error);
}

function configOf(cluster: Cluster, user: User): KubeConfig {
  const config = new KubeConfig();
  config.loadFromClusterAndUser(cluster, user);
  return config;
}

/**
 * Like client-go, uses TLS for an address without a scheme if any TLS option is set. Unlike client-go, also uses TLS if
 * there are credentials.
 */
function isTlsMeant(cluster: Cluster, user: User): boolean {
  const { caFile, caData, skipTLSVerify } = cluster;
  const { certFile, certData, token, username, exec, authProvider } = user;
  const given = [caFile, caData, certFile, certData, token, username, exec, authProvider];
  return skipTLSVerify || given.some(Boolean);
}

function isThisMachine(hostname: string): boolean {
  const address = parseIpAddress(hostname.replace(/^\[|\]$/g, ""));
  return hostname === "localhost" || (address !== undefined && isLoopback(address));
}

function serverOf(
  server: string,
  { origin, isTlsMeant }: { readonly origin: string; readonly isTlsMeant: boolean },
): string {
  const scheme = isTlsMeant ? "https" : "http";
  const url = URL.parse(server.includes("://") ? server : `${scheme}://${server}`);
  if (url === null || !["http:", "https:"].includes(url.protocol)) {
    const why = `${printable(server)} is not a URL such as https://10.0.0.1:6443`;
    throw invalidKubeconfig(origin, why);
  }
  return url.href.replace(/\/$/, "");
}

/** The library's name for a user whose bearer token is in a file. */
const tokenFileProvider = "tokenFile";

/** The current user. Adds tokenFile, which the library does not support and which takes precedence over token. */
function userOf(config: KubeConfig, { object, folder, origin }: Kubeconfig): User {
  const user = config.getCurrentUser() ?? { name: "nobody" };
  const users = fieldOf(object, "users");
  const entries: readonly unknown[] = Array.isArray(users) ? users : [];
  const given = fieldOf(
    entries.find((entry) => fieldOf(entry, "name") === user.name),
    "user",
  );
  for (const name of ["as-groups", "as-uid", "as-user-extra"]) {
    if (fieldOf(given, name) === undefined) continue;
    throw invalidKubeconfig(
      origin,
      `user ${user.name} has ${name}, which is not supported; use the field "as" instead`,
    );
  }
  const file = fieldOf(given, "tokenFile");
  if (typeof file !== "string" || file === "") return user;
  const { token: _token, ...rest } = user;
  const tokenFile = resolve(folder, file);
  return { ...rest, authProvider: { name: tokenFileProvider, config: { tokenFile } } };
}

function proxiedUser({ cert, key }: TlsMaterial): User {
  const encode = (text: unknown): string => Buffer.from(text as string | Buffer).toString("base64");
  return {
    name: "proxied",
    ...(cert === undefined ? {} : { certData: encode(cert) }),
    ...(key === undefined ? {} : { keyData: encode(key) }),
  };
}

/** Sets KUBERNETES_EXEC_INFO, from which exec plugins read their API version (client.authentication.k8s.io). */
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
