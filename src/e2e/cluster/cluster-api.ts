/** Typed clients of the API server, from @kubernetes/client-node. Requests go through our own connection. */
import {
  AuthorizationV1Api,
  CoreV1Api,
  createConfiguration,
  DiscoveryV1Api,
  EventsV1Api,
  type HttpLibrary,
  Observable,
  RbacAuthorizationV1Api,
  type RequestContext,
  ResponseContext,
  ServerConfiguration,
} from "@kubernetes/client-node";
import { ApiError } from "../../api/api-error.ts";
import type { ApiConnection, ApiResponse, ApiWrite } from "../../api/connection.ts";
import { pathOf } from "../../api/decode/fields.ts";
import { parseJson } from "../../base/parse-json.ts";

/** Their methods reject with ApiError. */
export interface ClusterApi {
  readonly core: CoreV1Api;
  readonly discovery: DiscoveryV1Api;
  readonly events: EventsV1Api;
  readonly authorization: AuthorizationV1Api;
  readonly rbac: BindingsApi;
}

export type BindingsApi = Pick<
  RbacAuthorizationV1Api,
  "readClusterRoleBinding" | "deleteClusterRoleBinding" | "deleteNamespacedRoleBinding"
>;

const requestMs = 30_000;

export function clusterApi(connection: ApiConnection): ClusterApi {
  const httpApi: HttpLibrary = {
    send: (request) => new Observable(answerOf(connection, request)),
  };
  const baseServer = new ServerConfiguration(connection.server, {});
  const configuration = createConfiguration({ baseServer, httpApi });
  return {
    core: new CoreV1Api(configuration),
    discovery: new DiscoveryV1Api(configuration),
    events: new EventsV1Api(configuration),
    authorization: new AuthorizationV1Api(configuration),
    rbac: new RbacAuthorizationV1Api(configuration),
  };
}

/** Undefined: there is no such object. */
export async function unlessMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}

async function answerOf(
  connection: ApiConnection,
  request: RequestContext,
): Promise<ResponseContext> {
  const { status, body } = await send(connection, request);
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  const bytes = Buffer.concat(chunks);
  if (status >= 300) throw refusal(request, status, bytes.toString("utf8"));
  const headers = { "content-type": "application/json" };
  return new ResponseContext(status, headers, {
    text: async () => bytes.toString("utf8"),
    binary: async () => bytes,
    stream: () => new Blob([bytes]).stream(),
  });
}

/** A server may close an idle connection while a request is on its way: what only reads is sent again. */
async function send(connection: ApiConnection, request: RequestContext): Promise<ApiResponse> {
  const { pathname, searchParams } = new URL(request.getUrl());
  const path = pathname.slice(new URL(connection.server).pathname.replace(/\/$/, "").length);
  const method = request.getHttpMethod().toString();
  const signal = (): AbortSignal => AbortSignal.timeout(requestMs);
  if (method !== "GET") {
    const contentType = request.getHeaders()["Content-Type"] ?? "application/json";
    const write = { method, path, contentType, body: String(request.getBody() ?? "") };
    return await connection.send(write as ApiWrite, signal());
  }
  const ask = (): Promise<ApiResponse> =>
    connection.request(path, Object.fromEntries(searchParams), signal());
  return await ask().catch((error: unknown) => {
    if (error instanceof ApiError && error.reason === "ECONNRESET") return ask();
    throw error;
  });
}

/** In the words of its Status object; proxies answer with other things. */
function refusal(request: RequestContext, status: number, text: string): ApiError {
  let reason = "";
  let message = text.slice(0, 200).trim();
  try {
    const answer = parseJson(text);
    reason = String(pathOf(answer, "reason") ?? "");
    message = String(pathOf(answer, "message") ?? "");
  } catch {
    // The text is shown as it is.
  }
  const what = `${request.getHttpMethod()} ${new URL(request.getUrl()).pathname}`;
  const advice = status === 403 ? "; grant it, as deploy/kustomize/e2e does" : "";
  return new ApiError(`Cannot ${what}: ${status} ${message}${advice}`, { status, reason });
}
