import { ApiError } from "../api/api-error.ts";
import { expectWritten, type WriteWords } from "../api/cluster/answers.ts";
import type { ApiConnection, ApiWrite } from "../api/connection.ts";
import type { NewSlice, StoredSlice } from "../endpoint-slices/objects.ts";
import type { SlicePlan, SliceUpdate } from "../endpoint-slices/plan-slices.ts";
import { sliceObject, slicePatch } from "../endpoint-slices/render.ts";
import { bareName, namespaceOf } from "../endpoint-slices/selection.ts";
import { controllerResources, controllerRole } from "./resources.ts";

const requestTimeoutMs = 30_000;

/** Writes plans to the API server. What was changed meanwhile is refused there, and not written over. */
export class SliceWriter {
  readonly #connection: ApiConnection;
  readonly #signal: AbortSignal;

  constructor(connection: ApiConnection, signal: AbortSignal) {
    this.#connection = connection;
    this.#signal = signal;
  }

  /**
   * Carries out a plan: what gives endpoints first, removals last. Throws ApiError at the first write that fails; the
   * next plan begins from what is stored by then.
   */
  async write({ creates, updates, deletes }: SlicePlan): Promise<void> {
    for (const slice of creates) await this.#create(slice);
    for (const update of updates) await this.#update(update);
    for (const slice of deletes) await this.#delete(slice);
  }

  #create(slice: NewSlice): Promise<void> {
    const path = pathOf(slice.name, "");
    const body = JSON.stringify(sliceObject(slice));
    return this.#send(
      { method: "POST", path, contentType: "application/json", body },
      `create EndpointSlice ${slice.name}`,
    );
  }

  #update(update: SliceUpdate): Promise<void> {
    const { name } = update.stored;
    const body = JSON.stringify(slicePatch(update));
    const contentType = "application/merge-patch+json";
    return this.#send(
      { method: "PATCH", path: pathOf(name, bareName(name)), contentType, body },
      `update EndpointSlice ${name}`,
    );
  }

  /** One that is gone is what was wanted. */
  async #delete({ name, uid, resourceVersion }: StoredSlice): Promise<void> {
    const preconditions = { uid, resourceVersion };
    const body = JSON.stringify({ kind: "DeleteOptions", apiVersion: "v1", preconditions });
    const path = pathOf(name, bareName(name));
    try {
      await this.#send(
        { method: "DELETE", path, contentType: "application/json", body },
        `delete EndpointSlice ${name}`,
      );
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404)) throw error;
    }
  }

  async #send(write: ApiWrite, operation: string): Promise<void> {
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(requestTimeoutMs)]);
    const { name } = controllerResources.endpointslices;
    const words: WriteWords = { name, operation, advice: adviceFor };
    await expectWritten(words, await this.#connection.send(write, signal));
  }
}

/** Someone else wrote first, or what was read is old by now: to be expected, and gone when it is read. */
export function isConflict(error: unknown): boolean {
  return error instanceof ApiError && error.status === 409;
}

function pathOf(slice: string, name: string): string {
  const collection = `/apis/discovery.k8s.io/v1/namespaces/${encodeURIComponent(namespaceOf(slice))}/endpointslices`;
  return name === "" ? collection : `${collection}/${encodeURIComponent(name)}`;
}

function adviceFor(status: number): string {
  if (status === 401) return "; the API server does not accept the credentials";
  if (status !== 403) return "";
  return (
    "; a ClusterRole bound to this user must allow create, patch and delete of endpointslices in API group " +
    `discovery.k8s.io, as ${controllerRole} does (a namespace that is being deleted refuses new objects, too)`
  );
}
