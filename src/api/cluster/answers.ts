import { errorText } from "../../base/error-text.ts";
import { parseJson } from "../../base/parse-json.ts";
import { ApiError } from "../api-error.ts";
import type { ApiResponse } from "../connection.ts";
import { fieldOf, pathOf } from "../decode/fields.ts";
import { printableText } from "../refusals.ts";
import { ByteChunks } from "./byte-chunks.ts";
import type { WatchedResource } from "./watched-resources.ts";

/** The fields of a watched resource that error messages use. */
type Named = Pick<WatchedResource, "name" | "role">;

/** Metadata of a list. */
export interface ListHead {
  readonly resourceVersion: string;
  /** Empty on the last page. */
  readonly continueToken: string;
}

/** One line of a watch. */
export interface WatchEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  readonly object: unknown;
  /** Empty if the object has no resourceVersion. */
  readonly resourceVersion: string;
}

const eventTypes = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"] as const;
const longestErrorBytes = 65_536;

/** Reads the metadata of a list whose items have been removed. Pure. */
export function readListHead(resource: Named, envelope: unknown): ListHead {
  const kind = fieldOf(envelope, "kind");
  const resourceVersion = textAt(envelope, "metadata", "resourceVersion");
  // Responses from other servers, such as `{}` from a captive portal, must not be mistaken for empty lists.
  if (typeof kind !== "string" || !kind.endsWith("List") || resourceVersion === "") {
    throw malformed(resource, "it is not a list of objects");
  }
  return { resourceVersion, continueToken: textAt(envelope, "metadata", "continue") };
}

/** Reads one line of a watch. Throws ERROR events as ApiError. Pure. */
export function readWatchEvent(resource: Named, line: string): WatchEvent {
  const event = parseAnswer(resource, line);
  const object = fieldOf(event, "object");
  const given = fieldOf(event, "type");
  if (given === "ERROR")
    throw statusError(resource, { status: numberAt(object, "code"), body: object });
  const type = eventTypes.find((known) => known === given);
  if (type === undefined) throw malformed(resource, "a watch event has an unknown type");
  return { type, object, resourceVersion: textAt(object, "metadata", "resourceVersion") };
}

/** If the status is not 200, throws an ApiError with the error from the response body. */
export async function expectOk(resource: Named, response: ApiResponse): Promise<void> {
  if (response.status === 200) return;
  throw statusError(resource, await failureOf(response));
}

/** Longer responses are treated as errors. */
const longestJsonBytes = 16 * 1024 * 1024;

/** Parses the JSON of a response. Throws an ApiError if the status is not 200 or 201, or if the body is invalid. */
export async function readJson(resource: Named, response: ApiResponse): Promise<unknown> {
  if (response.status !== 201) await expectOk(resource, response);
  const body = new ByteChunks(longestJsonBytes);
  for await (const chunk of response.body) parsed(resource, () => body.add(chunk));
  return parseAnswer(resource, body.take());
}

/** Reads the error from the beginning of an unsuccessful response's body. */
async function failureOf({ status, headers, body }: ApiResponse): Promise<FailedAnswer> {
  let text = "";
  for await (const chunk of body) {
    text += Buffer.from(chunk).toString("utf8");
    if (text.length > longestErrorBytes) break;
  }
  return { status, body: parseOrText(text), retryAfter: headers["retry-after"] };
}

/** Throws an ApiError if a write failed. Discards the body of a successful response. */
export async function expectWritten(words: RequestWords, response: ApiResponse): Promise<void> {
  await expectSuccess(words, response);
  // Reads the body to its end so that the connection can be reused.
  for await (const _chunk of response.body);
}

/** If a request failed, throws an ApiError with the error from the response body. */
export async function expectSuccess(words: RequestWords, response: ApiResponse): Promise<void> {
  const { status } = response;
  if (status >= 200 && status <= 299) return;
  const { name, operation, advice } = words;
  const failure = await failureOf(response);
  throw answerError(`Cannot ${operation}`, { name, advice: advice(status) }, failure);
}

/** Text for error messages about a request. */
export interface RequestWords {
  /** Resource name, such as `endpointslices.discovery.k8s.io`. */
  readonly name: string;
  /** Operation, such as `create EndpointSlice default/web-ipv4-0`. */
  readonly operation: string;
  /** Advice for the operator, by HTTP status. Empty if there is none. */
  readonly advice: (status: number) => string;
}

interface FailedAnswer {
  readonly status: number;
  readonly body: unknown;
  readonly retryAfter?: unknown;
}

/** An error for an invalid response. */
export function malformed(resource: Named, why: string, cause?: unknown): ApiError {
  const message = `Cannot decode the API server's response for ${resource.name}: ${why}`;
  return new ApiError(message, { reason: "malformed-answer", resource: resource.name, cause });
}

/** Returns the result of `parse`. Syntax and range errors become an ApiError `malformed-answer`. */
export function parsed<T>(resource: Named, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error;
    throw malformed(resource, errorText(error), error);
  }
}

function parseAnswer(resource: Named, text: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    throw malformed(resource, printableText(errorText(error)), error);
  }
}

function parseOrText(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    // Proxies and load balancers between the node and the API server respond with HTML or plain text.
    return { message: text };
  }
}

function statusError(resource: Named, answer: FailedAnswer): ApiError {
  const { name } = resource;
  return answerError(
    `Cannot read ${name}`,
    { name, advice: adviceFor(answer.status, resource) },
    answer,
  );
}

function answerError(
  what: string,
  { name, advice }: { readonly name: string; readonly advice: string },
  answer: FailedAnswer,
): ApiError {
  const { status, body } = answer;
  const reason = textAt(body, "reason") || `HTTP${status}`;
  const words = printableText(textAt(body, "message"));
  const message = `${what}: ${status} ${printableText(reason)}${words === "" ? "" : ` (${words})`}`;
  return new ApiError(message + advice, {
    status,
    reason,
    resource: name,
    retryAfterMs: retryAfterMsOf(answer.retryAfter),
  });
}

/** Advice for the operator. Empty if there is none. */
function adviceFor(status: number, { name, role = "system:node-proxier" }: Named): string {
  if (status === 401) {
    return "; the API server does not accept the credentials: check the kubeconfig's user or the token";
  }
  if (status !== 403) return "";
  const [resource, ...group] = name.split(".");
  const apiGroup = group.length === 0 ? "the core API group" : `API group ${group.join(".")}`;
  return (
    `; a ClusterRole bound to this user must allow list and watch of ${resource} in ${apiGroup}, ` +
    `as ${role} does`
  );
}

/** Supports only seconds, because the API server does not send dates. */
function retryAfterMsOf(value: unknown): number | undefined {
  return typeof value === "string" && /^\d{1,6}$/.test(value) ? Number(value) * 1000 : undefined;
}

function textAt(value: unknown, ...path: readonly string[]): string {
  const text = pathOf(value, ...path);
  return typeof text === "string" ? text : "";
}

function numberAt(value: unknown, name: string): number {
  const number = fieldOf(value, name);
  return typeof number === "number" ? number : 500;
}
