import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Agent } from "node:http";
import { type Clock, sleep } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { systemErrorText } from "../../base/system-error-text.ts";
import { ApiError } from "../api-error.ts";
import type { ClientConfig, ClientMaterial, TlsMaterial } from "./client-config.ts";
import { Remembered } from "./remembered.ts";

/** A plugin that takes longer hangs. */
const pluginTimeoutMs = 60_000;

/** What a request is sent with. */
export interface RequestCredentials {
  readonly headers: ClientMaterial["headers"];
  readonly agent: Agent;
}

/**
 * Credentials that change while the program runs: tokens and certificates in files, plugins. New TLS material
 * means new connections; those with the old one are cut, and whoever used them resumes.
 */
export class Credentials {
  readonly #clock: Clock;
  #config: ClientConfig;
  readonly #makeConfig: () => ClientConfig;
  readonly #material: Remembered<ClientMaterial>;
  /** Absent: none in a file. */
  readonly #token: Remembered<string> | undefined;
  #agent: Agent | undefined;
  #agentDigest = "";
  #reading: Promise<RequestCredentials> | undefined;

  /** `makeConfig` gives a config without anything remembered, for when the server refuses what we have. */
  constructor(clock: Clock, makeConfig: () => ClientConfig) {
    this.#clock = clock;
    this.#makeConfig = makeConfig;
    this.#config = makeConfig();
    const { tokenFile } = this.#config;
    this.#material = new Remembered(clock, () => this.#readMaterial());
    this.#token =
      tokenFile === undefined ? undefined : new Remembered(clock, () => readToken(tokenFile));
  }

  get server(): string {
    return this.#config.server;
  }

  /** The name that the server's certificate must carry. */
  get certifiedName(): string {
    return this.#config.certifiedName;
  }

  /**
   * Throws ApiError `no-credentials` when there are none, not even older ones. Requests that begin together
   * share one reading: a plugin runs once, and nobody's connections are cut by another's.
   */
  current(): Promise<RequestCredentials> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #read(): Promise<RequestCredentials> {
    const { headers, tls } = await this.#material.current();
    const token = await this.#token?.current();
    const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
    return { headers: { ...headers, ...authorization }, agent: await this.#agentFor(tls) };
  }

  /** The server refused them (401): forget what files and plugins said. */
  drop(): void {
    this.#token?.drop();
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
      return await withTimeout(this.#clock, this.#config.read());
    } catch (error) {
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

/** A bearer token in a file that another program replaces from time to time. */
async function readToken(path: string): Promise<string> {
  try {
    return (await readFile(path, "utf8")).trim();
  } catch (cause) {
    const advice = "check the kubeconfig or the service account that names it";
    const message = `Cannot read token file ${path}: ${systemErrorText(cause)}; ${advice}`;
    throw new ApiError(message, { reason: "no-credentials", cause });
  }
}

function digestOf(tls: TlsMaterial): string {
  const hash = createHash("sha256");
  for (const [name, value] of Object.entries(tls)) hash.update(`${name}=${String(value)}\n`);
  return hash.digest("base64");
}

async function withTimeout<T>(clock: Clock, promise: Promise<T>): Promise<T> {
  const abort = new AbortController();
  const expired = sleep(clock, pluginTimeoutMs, abort.signal).then(() => {
    if (abort.signal.aborted) return promise;
    throw new Error(`the credential plugin did not respond within ${pluginTimeoutMs / 1000} s`);
  });
  try {
    return await Promise.race([promise, expired]);
  } finally {
    abort.abort();
  }
}

/** A parser that fails quotes what it read, and that may be a token. */
function speakable(error: unknown): string {
  if (error instanceof SyntaxError) return "the output of the credential plugin is not JSON";
  const { syscall = "", path = "", code = "" } = error as NodeJS.ErrnoException;
  if (syscall.startsWith("spawn")) {
    return `cannot start the credential plugin ${path}: ${code}; install it, or name another one in the kubeconfig`;
  }
  if (path !== "") {
    return `cannot read ${path}: ${systemErrorText(error)}; check the files that the kubeconfig names`;
  }
  const text = errorText(error);
  return text === "" ? "the credential plugin failed without an error message" : text;
}
