import { errorText } from "../../base/error-text.ts";
import { parseJson } from "../../base/parse-json.ts";
import { ApiError } from "../api-error.ts";
import type { ApiResponse } from "../connection.ts";
import { fieldOf, pathOf } from "../decode/fields.ts";
import { printableText } from "../refusals.ts";
import { ByteParts } from "./byte-parts.ts";
import type { WatchedResource } from "./watched-resources.ts";

/** What messages call the thing that was asked for. */
type Named = Pick<WatchedResource, "name" | "role">;

/** What a list says about itself. */
export interface ListHead {
  readonly resourceVersion: string;
  /** Empty on the last page. */
  readonly continueToken: string;
}

/** A line of a watch. */
export interface WatchEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  readonly object: unknown;
  /** Empty when the object has none. */
  readonly resourceVersion: string;
}

const eventTypes = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"] as const;
const longestErrorBytes = 65_536;

/** Reads the head of a list, which is what remains of it without its items. Pure. */
export function readListHead(resource: Named, envelope: unknown): ListHead {
  const kind = fieldOf(envelope, "kind");
  const resourceVersion = textAt(envelope, "metadata", "resourceVersion");
  // A stranger's answer (a captive portal's `{}`) must not pass for an empty list.
  if (typeof kind !== "string" || !kind.endsWith("List") || resourceVersion === "") {
    throw malformed(resource, "it is not a list of objects");
  }
  return { resourceVersion, continueToken: textAt(envelope, "metadata", "continue") };
}

/** Reads a line of a watch; an ERROR event is thrown. Pure. */
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

/** Throws an ApiError for an answer that is not 200, with what its body says. */
export async function expectOk(resource: Named, response: ApiResponse): Promise<void> {
  if (response.status === 200) return;
  throw statusError(resource, await failureOf(response));
}

/** Longer answers than this are refused. */
const longestJsonBytes = 16 * 1024 * 1024;

/** The JSON of an answer. Throws an ApiError for one that is not a success, or makes no sense. */
export async function readJson(resource: Named, response: ApiResponse): Promise<unknown> {
  if (response.status !== 201) await expectOk(resource, response);
  const body = new ByteParts(longestJsonBytes);
  for await (const chunk of response.body) parsed(resource, () => body.add(chunk));
  return parseAnswer(resource, body.take());
}

/** What a response that is no success says about itself; reads a part of its body. */
async function failureOf({ status, headers, body }: ApiResponse): Promise<FailedAnswer> {
  let text = "";
  for await (const chunk of body) {
    text += Buffer.from(chunk).toString("utf8");
    if (text.length > longestErrorBytes) break;
  }
  return { status, body: parseOrText(text), retryAfter: headers["retry-after"] };
}

/** Throws an ApiError for a write that failed; what a successful one answers is not read. */
export async function expectWritten(words: RequestWords, response: ApiResponse): Promise<void> {
  await expectSuccess(words, response);
  // To its end, so that the connection can be used again.
  for await (const _chunk of response.body);
}

/** Throws an ApiError for a request that failed, with what its answer says. */
export async function expectSuccess(words: RequestWords, response: ApiResponse): Promise<void> {
  const { status } = response;
  if (status >= 200 && status <= 299) return;
  const { name, operation, advice } = words;
  const failure = await failureOf(response);
  throw answerError(`Cannot ${operation}`, { name, advice: advice(status) }, failure);
}

/** What messages about a request say. */
export interface RequestWords {
  /** `endpointslices.discovery.k8s.io`. */
  readonly name: string;
  /** `create EndpointSlice default/web-ipv4-0`. */
  readonly operation: string;
  /** What an operator can do, by HTTP status; empty: nothing. */
  readonly advice: (status: number) => string;
}

interface FailedAnswer {
  readonly status: number;
  readonly body: unknown;
  readonly retryAfter?: unknown;
}

/** An error for an answer that makes no sense. */
export function malformed(resource: Named, why: string, cause?: unknown): ApiError {
  const message = `Cannot decode the API server's response for ${resource.name}: ${why}`;
  return new ApiError(message, { reason: "malformed-answer", resource: resource.name, cause });
}

/** What `parse` makes of an answer; what it cannot make sense of is a malformed one. */
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
    // Proxies and load balancers on the way answer in HTML or plain text.
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

/** What an operator can do about it; empty where there is nothing. */
function adviceFor(status: number, { name, role = "system:node-proxier" }: Named): string {
  if (status === 401) {
    return "; the API server does not accept the credentials: check the user of the kubeconfig, or the token";
  }
  if (status !== 403) return "";
  const [resource, ...group] = name.split(".");
  const apiGroup = group.length === 0 ? "the core API group" : `API group ${group.join(".")}`;
  return (
    `; a ClusterRole bound to this user must allow list and watch of ${resource} in ${apiGroup}, ` +
    `as ${role} does`
  );
}

/** Seconds only; the API server sends no dates. */
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
