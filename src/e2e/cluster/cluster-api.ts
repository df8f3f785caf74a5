/** Typed clients of @kubernetes/client-node over our own connection to the API server. */

import { buffer } from "node:stream/consumers";
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
  SelfDecodingBody,
  ServerConfiguration,
} from "@kubernetes/client-node";
import { ApiError } from "../../api/api-error.ts";
import { expectSuccess } from "../../api/cluster/answers.ts";
import type { ApiConnection, ApiResponse, ApiWrite } from "../../api/connection.ts";
import { orElse } from "../../base/or-else.ts";

/** Methods of these clients reject with ApiError. */
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
  // The hostname is not used because the connection knows the server.
  const baseServer = new ServerConfiguration("http://kubernetes", {});
  const configuration = createConfiguration({ baseServer, httpApi });
  return {
    core: new CoreV1Api(configuration),
    discovery: new DiscoveryV1Api(configuration),
    events: new EventsV1Api(configuration),
    authorization: new AuthorizationV1Api(configuration),
    rbac: new RbacAuthorizationV1Api(configuration),
  };
}

/** Resolves with the answer, or with undefined if the object does not exist. */
export function unlessMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  return orElse(answer, (error) => error instanceof ApiError && error.status === 404, undefined);
}

async function answerOf(
  connection: ApiConnection,
  request: RequestContext,
): Promise<ResponseContext> {
  const url = new URL(request.getUrl());
  const response = await send(connection, request, url);
  const operation = `${request.getHttpMethod()} ${url.pathname}`;
  await expectSuccess({ name: url.pathname, operation, advice: adviceFor }, response);
  const headers = { "content-type": "application/json" };
  const body = new SelfDecodingBody(buffer(response.body));
  return new ResponseContext(response.status, headers, body);
}

function adviceFor(status: number): string {
  return status === 403 ? "; grant it, as deploy/kustomize/e2e does" : "";
}

/** Sends a request. Retries a GET if the server closed the idle connection at the same time. */
async function send(
  connection: ApiConnection,
  request: RequestContext,
  { pathname: path, searchParams }: URL,
): Promise<ApiResponse> {
  const signal = (): AbortSignal => AbortSignal.timeout(requestMs);
  const method = request.getHttpMethod().toString();
  if (method !== "GET") {
    const contentType = request.getHeaders()["Content-Type"] ?? "application/json";
    const write = { method, path, contentType, body: String(request.getBody() ?? "") };
    return await connection.send(write as ApiWrite, signal());
  }
  const query = Object.fromEntries(searchParams);
  return await connection.request(path, query, signal()).catch((error: unknown) => {
    if (!(error instanceof ApiError && error.reason === "ECONNRESET")) throw error;
    return connection.request(path, query, signal());
  });
}
