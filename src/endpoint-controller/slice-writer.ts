import { ApiError } from "../api/api-error.ts";
import { expectWritten, type RequestWords } from "../api/cluster/answers.ts";
import type { ApiConnection } from "../api/connection.ts";
import type { StoredSlice } from "../endpoint-slices/objects.ts";
import type { SlicePlan } from "../endpoint-slices/plan-slices.ts";
import { sliceObject, slicePatch } from "../endpoint-slices/render.ts";
import { bareName, namespaceOf } from "../endpoint-slices/selection.ts";
import { controllerResources, controllerRole } from "./resources.ts";

const requestTimeoutMs = 30_000;

/** Writes plans to the API server, which rejects writes to objects that have changed since they were read. */
export class SliceWriter {
  readonly #connection: ApiConnection;
  readonly #signal: AbortSignal;

  constructor(connection: ApiConnection, signal: AbortSignal) {
    this.#connection = connection;
    this.#signal = signal;
  }

  /**
   * Writes a plan: creates first, then updates, and deletes last, so endpoints are added before others are removed.
   * Throws ApiError at the first write that fails. The next plan starts from the stored state at that time.
   */
  async write({ creates, updates, deletes }: SlicePlan): Promise<void> {
    for (const slice of creates) await this.#send("create", slice.name, sliceObject(slice));
    for (const update of updates) {
      await this.#send("update", update.stored.name, slicePatch(update));
    }
    for (const slice of deletes) await this.#delete(slice);
  }

  /** Deletes a slice. Also succeeds if the slice no longer exists. */
  async #delete({ name, uid, resourceVersion }: StoredSlice): Promise<void> {
    const preconditions = { uid, resourceVersion };
    const options = { kind: "DeleteOptions", apiVersion: "v1", preconditions };
    try {
      await this.#send("delete", name, options);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404)) throw error;
    }
  }

  async #send(verb: keyof typeof requests, slice: string, body: object): Promise<void> {
    const { name } = controllerResources.endpointslices;
    const operation = `${verb} EndpointSlice ${slice}`;
    const words: RequestWords = { name, operation, advice: adviceFor };
    const namespace = encodeURIComponent(namespaceOf(slice));
    const collection = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;
    const path =
      verb === "create" ? collection : `${collection}/${encodeURIComponent(bareName(slice))}`;
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(requestTimeoutMs)]);
    const write = { ...requests[verb], path, body: JSON.stringify(body) };
    await expectWritten(words, await this.#connection.send(write, signal));
  }
}

const requests = {
  create: { method: "POST", contentType: "application/json" },
  update: { method: "PATCH", contentType: "application/merge-patch+json" },
  delete: { method: "DELETE", contentType: "application/json" },
} as const;

/**
 * Whether another writer was first or the cached state is outdated. This is expected; the retry uses the current
 * state.
 */
export function isConflict(error: unknown): boolean {
  return error instanceof ApiError && error.status === 409;
}

function adviceFor(status: number): string {
  if (status === 401) return "; the API server does not accept the credentials";
  if (status !== 403) return "";
  return (
    "; a ClusterRole bound to this user must allow create, patch and delete of endpointslices in API group " +
    `discovery.k8s.io, as ${controllerRole} does (new objects are also forbidden in a namespace that is being deleted)`
  );
}
