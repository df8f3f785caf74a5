import type { IncomingMessage, ServerResponse } from "node:http";
import type { ApiObject } from "../objects.ts";
import { jsonPatch } from "./json-patch.ts";
import { mergePatch } from "./merge-patch.ts";
import type { ObjectStore } from "./object-store.ts";
import { type Resource, resources } from "./resources.ts";
import { selectorOf } from "./selectors.ts";
import { sendStatus } from "./status.ts";

const namespacesForm = /^\/api\/v1\/namespaces(?:\/([^/]+))?$/;
const nodeForm = /^\/api\/v1\/nodes\/([^/]+)$/;
const namespacedForm = /^\/api\/v1\/namespaces\/([^/]+)\/(pods|services)(?:\/([^/]+))?$/;
const slicesForm = /^\/apis\/discovery\.k8s\.io\/v1\/namespaces\/([^/]+)\/endpointslices$/;

interface Target {
  readonly resource: Resource;
  /** Undefined for namespaces themselves. */
  readonly namespace?: string;
  /** Undefined for the collection. */
  readonly name?: string;
}

/** Sets the fields that an API server sets: addresses, ports, times. */
export type Admission = (object: ApiObject) => ApiObject;

/**
 * Get, list, create, patch and delete for namespaces, pods and Services; list for slices in one namespace; get and
 * patch for a Node.
 */
export class ObjectWrites {
  readonly #store: ObjectStore;
  admit: Admission = (object) => object;

  constructor(store: ObjectStore) {
    this.#store = store;
  }

  /** Undefined if another part of the server handles this request. */
  static targetOf({ method = "GET" }: IncomingMessage, path: string): Target | undefined {
    const namespaces = namespacesForm.exec(path);
    if (namespaces !== null) return targetIn("/api/v1/namespaces", undefined, namespaces[1]);
    const [, namespace, kind, name] = namespacedForm.exec(path) ?? [];
    if (kind !== undefined) return targetIn(`/api/v1/${kind}`, namespace, name);
    const node = nodeForm.exec(path);
    if (node !== null && (method === "GET" || method === "PATCH"))
      return targetIn("/api/v1/nodes", undefined, node[1]);
    if (method !== "GET") return undefined;
    const slices = slicesForm.exec(path);
    if (slices === null) return undefined;
    return targetIn("/apis/discovery.k8s.io/v1/endpointslices", slices[1], undefined);
  }

  async answer(
    target: Target,
    request: IncomingMessage,
    response: ServerResponse,
    query: URLSearchParams,
  ): Promise<void> {
    const { method } = request;
    const body = await bodyOf(request);
    if (method === "POST") return this.#create(target, body as ApiObject, response);
    if (target.name === undefined) return this.#list(target, query, response);
    const stored = this.#find(target);
    if (stored === undefined) return void sendStatus(response, 404, `${target.name} not found`);
    if (method === "PATCH") {
      const isJsonPatch = request.headers["content-type"] === "application/json-patch+json";
      const patched = isJsonPatch
        ? jsonPatch(stored, body as Parameters<typeof jsonPatch>[1])
        : mergePatch(stored, body);
      if (patched === undefined) return void sendStatus(response, 422, "the patch does not apply");
      this.#store.apply(patched as ApiObject);
      return void send(response, 200, this.#find(target));
    }
    if (method === "DELETE") this.#store.delete(stored);
    send(response, 200, stored);
  }

  #find({ resource, namespace, name }: Target): ApiObject | undefined {
    return this.#store
      .list(resource)
      .find(({ metadata }) => metadata["namespace"] === namespace && metadata["name"] === name);
  }

  #list({ resource, namespace }: Target, query: URLSearchParams, response: ServerResponse): void {
    const isIn = ({ metadata }: ApiObject): boolean => metadata["namespace"] === namespace;
    const items = this.#store.list(resource).filter(isIn).filter(selectorOf(query));
    send(response, 200, { kind: `${resource.kind}List`, apiVersion: resource.apiVersion, items });
  }

  #create(target: Target, object: ApiObject, response: ServerResponse): void {
    const name = String(object.metadata["name"]);
    if (this.#find({ ...target, name }) !== undefined) {
      return void sendStatus(response, 409, `${name} already exists`);
    }
    try {
      this.#store.apply(this.admit(object));
    } catch (error) {
      return void sendStatus(response, 422, String(error));
    }
    send(response, 201, this.#find({ ...target, name }));
  }
}

function targetIn(path: string, namespace: string | undefined, name: string | undefined): Target {
  const resource = resources.find((one) => one.path === path);
  if (resource === undefined) throw new Error(`No such resource: ${path}`);
  return {
    resource,
    ...(namespace === undefined ? {} : { namespace }),
    ...(name === undefined ? {} : { name }),
  };
}

function send(response: ServerResponse, status: number, object: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(object));
}

export async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString("utf8");
  return text === "" ? undefined : JSON.parse(text);
}
