import { ApiError } from "../api/api-error.ts";
import { Reflector, type ReflectorDependencies } from "../api/cluster/reflector.ts";
import type { ReflectorTarget } from "../api/cluster/reflector-target.ts";
import { type Decoder, decodeWith } from "../api/decode/decode-object.ts";
import { decodeNode } from "../api/decode/node.ts";
import { decodePod } from "../api/decode/pod.ts";
import { decodeSelectingService } from "../api/decode/selecting-service.ts";
import { decodeStoredSlice } from "../api/decode/stored-slice.ts";
import type { Notify } from "../api/last-known-records.ts";
import type { Refusal } from "../api/source.ts";
import { errorText } from "../base/error-text.ts";
import type { Logger } from "../base/log.ts";
import type { ServiceName } from "../base/service-name.ts";
import { planSlices, type SlicePlan } from "../endpoint-slices/plan-slices.ts";
import { EndpointObjects } from "./endpoint-objects.ts";
import { OtherManagers } from "./other-managers.ts";
import { controllerResources } from "./resources.ts";
import { RevertedError, RevertedWrites } from "./reverted-writes.ts";
import { isConflict, SliceWriter } from "./slice-writer.ts";
import { type Retry, WorkQueue } from "./work-queue.ts";

/** A watched resource and the functions that process its records. */
interface Informed<T> {
  readonly kind: keyof typeof controllerResources;
  readonly decode: Decoder<T>;
  readonly keysOf: (record: T) => readonly string[];
  /** Applies a change and returns the Services that depend on the record. */
  readonly replace: (...change: Parameters<Notify<T>>) => readonly ServiceName[];
}

/**
 * Creates EndpointSlices for each Service that has a selector, from the selected Pods, and keeps them up to date.
 * Starts writing when all four lists are complete. Survives all API server outages, and continues until stopped.
 */
export class EndpointController {
  readonly #dependencies: ReflectorDependencies;
  readonly #log: Logger;
  readonly #abort = new AbortController();
  readonly #objects = new EndpointObjects();
  readonly #writer: SliceWriter;
  readonly #queue: WorkQueue<ServiceName>;
  readonly #otherManagers: OtherManagers;
  readonly #namedRefusals = new Set<string>();
  readonly #reverted: RevertedWrites;
  readonly #unsynced = new Set<string>(Object.keys(controllerResources));
  #running: Promise<unknown> = Promise.resolve();

  constructor(dependencies: ReflectorDependencies) {
    const { connection, clock, random, log } = dependencies;
    this.#dependencies = dependencies;
    this.#log = log;
    this.#writer = new SliceWriter(connection, this.#abort.signal);
    this.#otherManagers = new OtherManagers(log);
    this.#reverted = new RevertedWrites(clock);
    this.#queue = new WorkQueue({
      clock,
      random,
      work: (service) => this.#reconcile(service),
      onFailure: (service, error, retry) => this.#noteFailure(service, error, retry),
      leastDelayMs,
    });
  }

  /** Whether all lists are complete and no writes remain. */
  get isSettled(): boolean {
    return this.#unsynced.size === 0 && this.#queue.isIdle;
  }

  start(): void {
    const objects = this.#objects;
    this.#running = Promise.all([
      this.#follow({
        kind: "services",
        decode: decodeSelectingService,
        keysOf: ({ name }) => [name],
        replace: (...change) => objects.replaceService(...change),
      }),
      this.#follow({
        kind: "pods",
        decode: decodePod,
        keysOf: ({ addresses }) => addresses,
        replace: (...change) => objects.replacePod(...change),
      }),
      this.#follow({
        kind: "nodes",
        decode: decodeNode,
        keysOf: ({ name }) => [name],
        replace: (...change) => objects.replaceNode(...change),
      }),
      this.#follow({
        kind: "endpointslices",
        decode: decodeStoredSlice,
        keysOf: ({ name }) => [name],
        replace: (...change) => objects.replaceSlice(...change),
      }),
    ]);
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await Promise.all([this.#running, this.#queue.stop()]);
  }

  #follow<T>(informed: Informed<T>): Promise<void> {
    const resource = controllerResources[informed.kind];
    const reflector = new Reflector(this.#dependencies, resource, this.#targetOf(informed));
    return reflector.run(this.#abort.signal);
  }

  #targetOf<T>({ kind, decode, keysOf, replace }: Informed<T>): ReflectorTarget<T> {
    return {
      decode: (object, into) => decodeWith(decode, kind, object, into),
      notify: (...change) => {
        for (const service of replace(...change)) this.#noteChange(service);
      },
      keysOf,
      onSynced: () => this.#noteSynced(kind),
      onRefusal: (refusal) => this.#nameRefusal(refusal),
      onListQuarantine: ({ outcome, known, missing }) =>
        this.#log.warn("Relist guard checked a list that would remove many objects", {
          resource: kind,
          outcome,
          known,
          missing,
        }),
    };
  }

  /**
   * Logs each invalid field once, up to a maximum number of fields, since many objects may be invalid for a long time.
   */
  #nameRefusal({ kind, subject: object, field, reason, message: err }: Refusal): void {
    const key = `${kind} ${object} ${field} ${reason}`;
    if (this.#namedRefusals.has(key) || this.#namedRefusals.size >= mostNamedRefusals) return;
    this.#namedRefusals.add(key);
    this.#log.warn("Ignoring invalid field", { kind, object, field, reason, err });
  }

  /** Ignores changes until all lists are complete. Before that, plans would lack Pods or slices. */
  #noteChange(service: ServiceName): void {
    if (this.#unsynced.size === 0) this.#queue.add(service);
  }

  /** Queues every Service once, including deleted Services that still have slices. */
  #noteSynced(kind: string): void {
    this.#unsynced.delete(kind);
    if (this.#unsynced.size > 0) return;
    const names = this.#objects.names();
    this.#log.info("Endpoint controller synced", { services: names.size });
    for (const name of names) this.#queue.add(name);
    this.#queue.start();
  }

  async #reconcile(service: ServiceName): Promise<void> {
    const situation = this.#objects.situationOf(service);
    const plan = planSlices(situation);
    this.#otherManagers.note(service, plan.managedBy);
    if (situation.service === undefined) this.#reverted.forget(service);
    if (countWrites(plan) === 0) return;
    this.#reverted.check(service, plan);
    await this.#writer.write(plan);
    this.#reverted.note(service, plan);
    const { creates, updates, deletes } = plan;
    this.#log.verbose(2, "Wrote EndpointSlices", {
      service,
      created: creates.length,
      updated: updates.length,
      deleted: deletes.length,
    });
  }

  /**
   * Warns at the first failure and then whenever the number of failures has doubled. The first conflicts are logged
   * only at higher verbosity, because they are normal with two writers.
   */
  #noteFailure(service: ServiceName, error: unknown, { failures, delayMs }: Retry): void {
    const keys = { service, err: errorText(error), retryInMs: Math.round(delayMs), failures };
    const event = "Cannot write EndpointSlices, retrying";
    const isExpected = isConflict(error) && failures < conflictsUntilLoud;
    const isLoud = (failures & (failures - 1)) === 0 && !isExpected;
    if (isLoud) this.#log.warn(event, keys);
    else this.#log.verbose(2, event, keys);
  }
}

const conflictsUntilLoud = 4;
const mostNamedRefusals = 1_000;

function leastDelayMs(error: unknown): number {
  if (error instanceof RevertedError) return error.waitMs;
  return error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0;
}

function countWrites({ creates, updates, deletes }: SlicePlan): number {
  return creates.length + updates.length + deletes.length;
}
