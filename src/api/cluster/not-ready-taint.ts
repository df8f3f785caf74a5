import { background } from "../../base/background.ts";
import { type Clock, sleep } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";
import { none } from "../../base/none.ts";
import type { ApiConnection, ApiWrite } from "../connection.ts";
import { type NodeRecord, notReadyTaint } from "../objects.ts";
import { sendWrite } from "./send-write.ts";

export interface NotReadyTaintDependencies {
  readonly connection: ApiConnection;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Delay if the Node changed in the meantime. The watch will deliver its new state. */
const conflictRetryMs = 1_000;
const retryMs = 10_000;

/**
 * Removes the taint {@link notReadyTaint} from this node's Node object when Services work on the node. A taint that is
 * added later is also removed. Needs permission to patch nodes, which system:node-proxier does not grant.
 */
export class NotReadyTaint {
  readonly #dependencies: NotReadyTaintDependencies;
  readonly #path: string;
  readonly #abort = new AbortController();
  #indexes: readonly number[] = none;
  #isReady = false;
  #isWorking = false;
  #problem: { readonly sinceMs: number; readonly message: string } | undefined;

  constructor(dependencies: NotReadyTaintDependencies, nodeName: string) {
    this.#dependencies = dependencies;
    this.#path = `/api/v1/nodes/${encodeURIComponent(nodeName)}`;
  }

  /** Why the taint could not be removed, and the monotonic time of the first failure. Undefined if there was none. */
  get problem(): { readonly sinceMs: number; readonly message: string } | undefined {
    return this.#problem;
  }

  noteNode(node: NodeRecord | undefined): void {
    this.#indexes = node?.notReadyTaints ?? none;
    this.#begin();
  }

  /** Call this when a sync has succeeded. */
  noteReady(): void {
    if (this.#isReady) return;
    this.#isReady = true;
    this.#begin();
  }

  stop(): void {
    this.#abort.abort();
  }

  #begin(): void {
    if (this.#isWorking || !this.#isReady || this.#indexes.length === 0) return;
    this.#isWorking = true;
    background(this.#work(), this.#dependencies.log, `removal of taint ${notReadyTaint}`);
  }

  async #work(): Promise<void> {
    const { clock, log } = this.#dependencies;
    const { signal } = this.#abort;
    while (this.#indexes.length > 0 && !signal.aborted) {
      const removed = this.#indexes;
      const status = await this.#attempt();
      if (status === 200) {
        log.info("Removed taint from Node", { taint: notReadyTaint });
        // The taint may have been added again before the answer arrived.
        if (this.#indexes === removed) this.#indexes = none;
      } else if (!signal.aborted) {
        await sleep(clock, this.#noteFailure(status), signal);
      }
    }
    this.#problem = undefined;
    this.#isWorking = false;
  }

  /** Returns the HTTP status, or the error if there was no answer. */
  async #attempt(): Promise<number | Error> {
    const write = removal(this.#path, this.#indexes);
    try {
      return await sendWrite(this.#dependencies, write, this.#abort.signal);
    } catch (error) {
      return error instanceof Error ? error : new Error(errorText(error));
    }
  }

  /** Logs the first of consecutive failures. Returns the time until the next attempt in milliseconds. */
  #noteFailure(status: number | Error): number {
    const { clock, log } = this.#dependencies;
    if (status === 409 || status === 422) return conflictRetryMs;
    const advice =
      status === 403
        ? "; a ClusterRole bound to this user must allow patch of nodes (docs/tuning/node.md)"
        : "";
    const cause = typeof status === "number" ? `HTTP ${status}` : errorText(status);
    const message = `Cannot remove taint ${notReadyTaint}: PATCH ${this.#path}: ${cause}${advice}`;
    if (this.#problem === undefined)
      log.warn("Cannot remove taint from Node, retrying", { taint: notReadyTaint, err: message });
    this.#problem = { sinceMs: this.#problem?.sinceMs ?? clock.monotonicMs(), message };
    return retryMs;
  }
}

/**
 * A JSON patch, which requires no previous read. If the list of taints has changed, a `test` operation makes the whole
 * patch fail (422), so the patch never removes a different taint. The last index comes first so that the others remain
 * valid.
 */
function removal(path: string, indexes: readonly number[]): ApiWrite {
  const operations = indexes.toReversed().flatMap((index) => [
    { op: "test", path: `/spec/taints/${index}/key`, value: notReadyTaint },
    { op: "remove", path: `/spec/taints/${index}` },
  ]);
  const contentType = "application/json-patch+json";
  return { method: "PATCH", path, contentType, body: JSON.stringify(operations) };
}
