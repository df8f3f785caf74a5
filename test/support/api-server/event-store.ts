import type { IncomingMessage, ServerResponse } from "node:http";
import { sendStatus } from "./status.ts";

/** An Event with all patches since its creation. */
export type StoredEvent = Readonly<Record<string, unknown>> & {
  readonly metadata: { readonly name: string; readonly namespace: string };
};

const pathForm = /^\/apis\/events\.k8s\.io\/v1\/namespaces\/([^/]+)\/events(?:\/([^/]+))?$/;

/** Events (events.k8s.io/v1): create, merge patch and list. Rejects what a real API server would reject. */
export class EventStore {
  readonly #events = new Map<string, StoredEvent>();

  /** Sorted by creation time. */
  get events(): readonly StoredEvent[] {
    return [...this.#events.values()];
  }

  static isEventPath(path: string): boolean {
    return pathForm.test(path);
  }

  async answer(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, namespace = "", name] = pathForm.exec(path) ?? [];
    if (request.method === "GET" && name === undefined) {
      const items = this.events.filter(({ metadata }) => metadata.namespace === namespace);
      return send(response, 200, { kind: "EventList", apiVersion: "events.k8s.io/v1", items });
    }
    const body = JSON.parse(await textOf(request)) as Record<string, unknown>;
    const type = request.headers["content-type"];
    if (request.method === "POST" && name === undefined && type === "application/json") {
      return this.#create(namespace, body as StoredEvent, response);
    }
    const isPatch = request.method === "PATCH" && type === "application/merge-patch+json";
    if (!isPatch || name === undefined) return sendStatus(response, 405, "Method not allowed");
    this.#patch(`${namespace}/${name}`, body, response);
  }

  #create(namespace: string, event: StoredEvent, response: ServerResponse): void {
    const problem = problemOf(namespace, event);
    const key = `${namespace}/${event.metadata?.name}`;
    if (problem !== undefined) sendStatus(response, 422, problem);
    else if (this.#events.has(key)) sendStatus(response, 409, "already exists");
    else {
      this.#events.set(key, event);
      send(response, 201, event);
    }
  }

  #patch(key: string, patch: Record<string, unknown>, response: ServerResponse): void {
    const event = this.#events.get(key);
    if (event === undefined) {
      sendStatus(response, 404, "not found");
      return;
    }
    const patched = { ...event, ...patch };
    this.#events.set(key, patched);
    send(response, 200, patched);
  }
}

/** The validation rules that a client bug is most likely to violate (pkg/apis/core/validation, events). */
function problemOf(namespace: string, event: StoredEvent): string | undefined {
  const isNode = (event["regarding"] as { kind?: unknown } | undefined)?.kind === "Node";
  const regarding = event["regarding"] as { namespace?: unknown } | undefined;
  if (event["apiVersion"] !== "events.k8s.io/v1" || event["kind"] !== "Event") return "wrong type";
  if (event.metadata?.namespace !== namespace) return "namespace differs from the path's";
  if ((isNode ? "default" : regarding?.namespace) !== namespace) return "not regarding's namespace";
  if (!/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(event.metadata.name)) return "invalid name";
  if (!/^\d{4}-\d\d-\d\dT[\d:]{8}\.\d{6}Z$/.test(String(event["eventTime"]))) return "eventTime";
  if (!["Normal", "Warning"].includes(String(event["type"]))) return "type";
  for (const field of ["reportingController", "reportingInstance", "reason", "action"]) {
    const text = String(event[field] ?? "");
    if (text === "" || text.length > 128) return `${field} has 1 to 128 characters`;
  }
  return Buffer.byteLength(String(event["note"] ?? "")) > 1_024 ? "note is too long" : undefined;
}

function send(response: ServerResponse, status: number, object: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(object));
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}
