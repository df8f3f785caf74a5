import type { IncomingMessage, ServerResponse } from "node:http";
import { isDeepStrictEqual } from "node:util";
import type { ApiObject } from "../objects.ts";
import { mergePatch } from "./merge-patch.ts";
import type { ObjectStore } from "./object-store.ts";
import { resourceOf } from "./resources.ts";
import { sendStatus } from "./status.ts";

type Fields = Readonly<Record<string, unknown>>;

const pathForm =
  /^\/apis\/discovery\.k8s\.io\/v1\/namespaces\/([^/]+)\/endpointslices(?:\/([^/]+))?$/;

/** Create, merge patch and delete for EndpointSlices, with the conflicts of a real API server. */
export class SliceWrites {
  readonly #store: ObjectStore;
  #lastUid = 0;

  constructor(store: ObjectStore) {
    this.#store = store;
  }

  static isWritePath(path: string): boolean {
    return pathForm.test(path);
  }

  async answer(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, namespace = "", name = ""] = pathForm.exec(path) ?? [];
    const body = JSON.parse(await textOf(request)) as Fields;
    const type = request.headers["content-type"];
    if (request.method === "POST" && name === "") return this.#create(body as ApiObject, response);
    const stored = this.#find(namespace, name);
    if (stored === undefined) return void sendStatus(response, 404, `${name} not found`);
    if (request.method === "PATCH" && type === "application/merge-patch+json") {
      return this.#patch(stored, body, response);
    }
    if (request.method === "DELETE") return this.#delete(stored, body, response);
    sendStatus(response, 405, "Method not allowed");
  }

  #find(namespace: unknown, name: unknown): ApiObject | undefined {
    const slices = this.#store.list(resourceOf({ kind: "EndpointSlice" } as ApiObject));
    return slices.find(
      ({ metadata }) => metadata["namespace"] === namespace && metadata["name"] === name,
    );
  }

  #create(object: ApiObject, response: ServerResponse): void {
    const { namespace, name } = object.metadata;
    const problem = problemOf(object);
    if (problem !== undefined) return void sendStatus(response, 422, problem);
    if (this.#find(namespace, name) !== undefined) {
      return void sendStatus(response, 409, `endpointslices "${String(name)}" already exists`);
    }
    this.#lastUid += 1;
    const uid = `stored-${this.#lastUid}`;
    this.#store.apply({ ...object, metadata: { ...object.metadata, uid } });
    send(response, 201, this.#find(namespace, name));
  }

  #patch(stored: ApiObject, patch: Fields, response: ServerResponse): void {
    const { resourceVersion } = (patch["metadata"] ?? {}) as { resourceVersion?: unknown };
    if (resourceVersion !== undefined && resourceVersion !== stored.metadata["resourceVersion"]) {
      return void sendStatus(response, 409, "the object has been modified");
    }
    const patched = mergePatch(stored, patch) as ApiObject;
    const problem = problemOf(patched);
    if (problem !== undefined) return void sendStatus(response, 422, problem);
    if (!isDeepStrictEqual(patched, stored)) this.#store.apply(patched);
    send(response, 200, this.#find(stored.metadata["namespace"], stored.metadata["name"]));
  }

  #delete(stored: ApiObject, options: Fields, response: ServerResponse): void {
    const wanted = (options["preconditions"] ?? {}) as Fields;
    const differs = Object.keys(wanted).some((name) => wanted[name] !== stored.metadata[name]);
    if (differs) return void sendStatus(response, 409, "the preconditions do not hold");
    this.#store.delete(stored);
    send(response, 200, { kind: "Status", status: "Success" });
  }
}

/** The validation rules that a client bug is most likely to violate (pkg/apis/discovery/validation). */
function problemOf({ addressType, endpoints, ports, metadata }: ApiObject): string | undefined {
  if (addressType !== "IPv4" && addressType !== "IPv6") return "addressType";
  if (!Array.isArray(endpoints) || endpoints.length > 1_000) return "endpoints";
  if (!Array.isArray(ports)) return "ports";
  if (!/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/.test(String(metadata["name"]))) return "name";
  const owners = (metadata["ownerReferences"] ?? []) as readonly Fields[];
  if (owners.some(({ uid }) => typeof uid !== "string" || uid === "")) return "owner without uid";
  return undefined;
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
