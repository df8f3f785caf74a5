import { ApiError } from "../../api/api-error.ts";
import type { ApiConnection, ApiResponse } from "../../api/connection.ts";
import { pathOf } from "../../api/decode/fields.ts";
import { parseJson } from "../../base/parse-json.ts";

/** An object as the API server has it; fields are narrowed where they are read. */
export type KubeObject = Readonly<Record<string, unknown>>;

const requestMs = 30_000;

/** Objects of a cluster by their paths. Rejects with ApiError. */
export class ClusterObjects {
  readonly #connection: ApiConnection;

  constructor(connection: ApiConnection) {
    this.#connection = connection;
  }

  /** Undefined: there is none. */
  async find(path: string): Promise<KubeObject | undefined> {
    try {
      return await this.#get(`get ${path}`, path, {});
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  async list(
    path: string,
    query: Readonly<Record<string, string>> = {},
  ): Promise<readonly KubeObject[]> {
    const items = pathOf(await this.#get(`list ${path}`, path, query), "items");
    return Array.isArray(items) ? (items as readonly KubeObject[]) : [];
  }

  async create(path: string, object: KubeObject): Promise<KubeObject> {
    return await this.#send("POST", path, "application/json", object);
  }

  /** RFC 7386. */
  async patch(path: string, patch: KubeObject): Promise<KubeObject> {
    return await this.#send("PATCH", path, "application/merge-patch+json", patch);
  }

  /** What is not there any more is no error. */
  async delete(path: string): Promise<void> {
    try {
      await this.#send("DELETE", path, "application/json", {});
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404)) throw error;
    }
  }

  /** A server may close a connection that waited while a request is on its way. */
  async #get(
    what: string,
    path: string,
    query: Readonly<Record<string, string>>,
  ): Promise<KubeObject> {
    const ask = (): Promise<ApiResponse> => this.#connection.request(path, query, deadline());
    const again = (error: unknown): Promise<ApiResponse> => {
      if (error instanceof ApiError && error.reason === "ECONNRESET") return ask();
      throw error;
    };
    return await this.#read(what, ask().catch(again));
  }

  async #send(
    method: "POST" | "PATCH" | "DELETE",
    path: string,
    contentType: string,
    object: KubeObject,
  ): Promise<KubeObject> {
    const write = { method, path, contentType, body: JSON.stringify(object) };
    return await this.#read(`${method} ${path}`, this.#connection.send(write, deadline()));
  }

  async #read(what: string, answer: Promise<ApiResponse>): Promise<KubeObject> {
    const { status, body } = await answer;
    const chunks: Uint8Array[] = [];
    for await (const chunk of body) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString("utf8");
    if (status >= 200 && status < 300) return parseJson(text) as KubeObject;
    const { reason, message } = reasonIn(text);
    const advice = status === 403 ? "; grant it, as deploy/kustomize/e2e does" : "";
    throw new ApiError(`Cannot ${what}: ${status} ${message}${advice}`, { status, reason });
  }
}

function deadline(): AbortSignal {
  return AbortSignal.timeout(requestMs);
}

/** Of a Status object; proxies answer with other things. */
function reasonIn(text: string): { readonly reason: string; readonly message: string } {
  try {
    const status = parseJson(text);
    const [reason, message] = [pathOf(status, "reason"), pathOf(status, "message")];
    return { reason: String(reason ?? ""), message: String(message ?? "") };
  } catch {
    return { reason: "", message: text.slice(0, 200).trim() };
  }
}
