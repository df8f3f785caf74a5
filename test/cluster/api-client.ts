/** API server requests as the cluster's administrator, for the DNS server, the load balancer and similar programs. */
import { readFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { join } from "node:path";
import { apiServer } from "./network.ts";

const timeoutMs = 10_000;

export class ApiClient {
  readonly #agent: Agent;

  /** `credentials`: the folder that credentials.ts writes. */
  constructor(credentials: string) {
    const read = (file: string): Buffer => readFileSync(join(credentials, file));
    this.#agent = new Agent({
      keepAlive: true,
      ...{ ca: read("ca.crt"), cert: read("admin.crt"), key: read("admin.key") },
    });
  }

  async list<T>(path: string): Promise<readonly T[]> {
    return (JSON.parse(await this.#send("GET", path)) as { readonly items: readonly T[] }).items;
  }

  /** Sends a JSON merge patch. */
  async patch(path: string, change: object): Promise<void> {
    await this.#send("PATCH", path, JSON.stringify(change));
  }

  #send(method: string, path: string, body?: string): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const headers = body === undefined ? {} : { "Content-Type": "application/merge-patch+json" };
    const options = { agent: this.#agent, method, headers, timeout: timeoutMs };
    const sent = request(`${apiServer}${path}`, options, (response) => {
      let text = "";
      response.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
      response.once("error", reject);
      response.once("end", () => {
        if (response.statusCode === 200) resolve(text);
        else reject(new Error(`${method} ${path}: ${response.statusCode}`));
      });
    });
    sent.once("timeout", () => sent.destroy(new Error(`${method} ${path}: timeout`)));
    sent.once("error", reject);
    sent.end(body);
    return promise;
  }
}
