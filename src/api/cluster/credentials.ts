import { createHash } from "node:crypto";
import type { Agent } from "node:http";
import { type Clock, sleep } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { systemErrorText } from "../../base/system-error-text.ts";
import { ApiError } from "../api-error.ts";
import type { ClientConfig, ClientMaterial, TlsMaterial } from "./client-config.ts";
import { Remembered } from "./remembered.ts";

/** Plugins that run longer are considered hung and are killed. */
const pluginTimeoutMs = 60_000;

/** Headers and agent for a request. */
export interface RequestCredentials {
  readonly headers: ClientMaterial["headers"];
  readonly agent: Agent;
}

/**
 * Credentials that change while the program runs: tokens and certificates in files, and plugins. New TLS options
 * require new connections. Connections with the old options are closed, and their requests must be retried.
 */
export class Credentials {
  readonly #clock: Clock;
  #config: ClientConfig;
  readonly #makeConfig: () => ClientConfig;
  readonly #material: Remembered<ClientMaterial>;
  #agent: Agent | undefined;
  #agentDigest = "";
  #reading: Promise<RequestCredentials> | undefined;

  /**
   * `makeConfig` creates a config without cached credentials, for use when the server rejects the current credentials.
   */
  constructor(clock: Clock, makeConfig: () => ClientConfig) {
    this.#clock = clock;
    this.#makeConfig = makeConfig;
    this.#config = makeConfig();
    this.#material = new Remembered(clock, () => this.#readMaterial());
  }

  get server(): string {
    return this.#config.server;
  }

  /** The name that the server's certificate must contain. */
  get certifiedName(): string {
    return this.#config.certifiedName;
  }

  /**
   * Throws ApiError `no-credentials` if there are no credentials, not even older ones. Concurrent requests share one
   * read, so a plugin runs only once and requests do not close each other's connections.
   */
  current(): Promise<RequestCredentials> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #read(): Promise<RequestCredentials> {
    const { headers, tls } = await this.#material.current();
    return { headers, agent: await this.#agentFor(tls) };
  }

  /** Discards cached credentials after the server rejected them (401). */
  drop(): void {
    this.#material.drop();
    this.#config = this.#makeConfig();
  }

  close(): void {
    this.#agent?.destroy();
    this.#agent = undefined;
    this.#agentDigest = "";
  }

  async #readMaterial(): Promise<ClientMaterial> {
    try {
      return await readInTime(this.#clock, this.#config);
    } catch (error) {
      if (error instanceof ApiError) throw error;
      const message = `Cannot get credentials for ${this.server}: ${speakable(error)}`;
      throw new ApiError(message, { reason: "no-credentials" });
    }
  }

  async #agentFor(tls: TlsMaterial): Promise<Agent> {
    const digest = digestOf(tls);
    if (this.#agent !== undefined && digest === this.#agentDigest) return this.#agent;
    const agent = await this.#config.agentFor(tls);
    this.close();
    this.#agent = agent;
    this.#agentDigest = digest;
    return agent;
  }
}

function digestOf(tls: TlsMaterial): string {
  const hash = createHash("sha256");
  for (const [name, value] of Object.entries(tls)) hash.update(`${name}=${String(value)}\n`);
  return hash.digest("base64");
}

async function readInTime(clock: Clock, config: ClientConfig): Promise<ClientMaterial> {
  const abort = new AbortController();
  const expired = sleep(clock, pluginTimeoutMs, abort.signal).then(() => {
    config.killPlugins();
    const why = `the credential plugin did not finish within ${pluginTimeoutMs / 1000} s and was killed`;
    throw new Error(`${why}; run the command in the kubeconfig by hand to see why`);
  });
  try {
    return await Promise.race([config.read(), expired]);
  } finally {
    abort.abort();
  }
}

/** Returns an error's text without secrets. Parser errors quote their input, which may be a token. */
function speakable(error: unknown): string {
  if (error instanceof SyntaxError) return "the output of the credential plugin is not JSON";
  const { syscall = "", path = "", code = "" } = error as NodeJS.ErrnoException;
  if (syscall.startsWith("spawn")) {
    return `cannot start the credential plugin ${path}: ${code}; install it, or configure a different one in the kubeconfig`;
  }
  if (path !== "") {
    return `cannot read ${path}: ${systemErrorText(error)}; check the files that the kubeconfig names`;
  }
  const text = errorText(error);
  return text === "" ? "the credential plugin failed without an error message" : text;
}
