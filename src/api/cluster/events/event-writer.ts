import { type Clock, sleep } from "../../../base/clock.ts";
import { errorText } from "../../../base/error-text.ts";
import type { Logger } from "../../../base/log.ts";
import type { ApiConnection, ApiWrite } from "../../connection.ts";
import type { ClusterEvent, EventRecorder } from "../../event.ts";
import type { EndpointSliceRecord } from "../../objects.ts";
import {
  type EventStamp,
  eventName,
  eventObject,
  eventsPath,
  seriesKey,
  seriesPatch,
} from "./event-object.ts";
import { EventShare } from "./event-share.ts";
import { TokenBuckets } from "./token-buckets.ts";

export interface EventWriterDependencies {
  readonly connection: ApiConnection;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Something that happened once or more, and the object that reports it. */
interface Series {
  readonly path: string;
  count: number;
  lastObservedMs: number;
  /** The count in the API server's object. */
  reportedCount: number;
  reportedAtMs: number;
}

/** As client-go: 25 events about an object at once, then one every five minutes. */
const spam = { burst: 25, intervalMs: 300_000 } as const;
const maxQueued = 1_000;
const maxTries = 12;
const retryMs = 10_000;
const requestTimeoutMs = 10_000;
/** What did not happen again for this long is over. */
const silenceMs = 360_000;
/** A series that continues is reported again this often. */
const refreshMs = 1_800_000;
/** How long the rest of the queue may take when the program stops. */
const stopGraceMs = 300;

/**
 * Writes events to the API server, one after the other, beside everything else: whoever records one never
 * waits. What happens again becomes a series on the first object. Needs create and patch of
 * events.events.k8s.io, which system:node-proxier has; without them a line in the log says so once.
 */
export class EventWriter implements EventRecorder {
  readonly #dependencies: EventWriterDependencies;
  readonly #reportingInstance: string;
  readonly #buckets: TokenBuckets;
  readonly #share: EventShare;
  readonly #series = new Map<string, Series>();
  readonly #queue: ApiWrite[] = [];
  readonly #abort = new AbortController();
  #working: Promise<void> | undefined;
  #cancelSweep: (() => void) | undefined;
  #lastSerial = 0n;
  #hasReportedRefusal = false;

  /** `hostname`: the machine's own name, not the node's. */
  constructor(
    dependencies: EventWriterDependencies,
    { hostname, nodeName }: { readonly hostname: string; readonly nodeName: string },
  ) {
    this.#dependencies = dependencies;
    this.#reportingInstance = `kube-proxy-${hostname}`;
    this.#buckets = new TokenBuckets(dependencies.clock, spam);
    this.#share = new EventShare(dependencies.clock, nodeName);
  }

  noteSlice(
    previous: EndpointSliceRecord | undefined,
    current: EndpointSliceRecord | undefined,
  ): void {
    this.#share.noteSlice(previous, current);
  }

  record(event: ClusterEvent): void {
    if (this.#abort.signal.aborted) return;
    if (!this.#buckets.take(JSON.stringify(event.subject)) || !this.#share.take(event)) return;
    const key = seriesKey(event);
    const series = this.#series.get(key);
    if (series === undefined) this.#begin(key, event);
    else this.#repeat(series);
    this.#cancelSweep ??= this.#dependencies.clock.after(silenceMs, () => this.#sweep());
  }

  /** Gives what is queued a moment, then drops it. */
  async stop(): Promise<void> {
    this.#cancelSweep?.();
    const cancel = this.#dependencies.clock.after(stopGraceMs, () => this.#abort.abort());
    await this.#working;
    cancel();
    this.#abort.abort();
  }

  #begin(key: string, event: ClusterEvent): void {
    const { clock } = this.#dependencies;
    const stamp = this.#stamp();
    const collection = eventsPath(event.subject);
    const path = `${collection}/${encodeURIComponent(eventName(event.subject, stamp))}`;
    const reported = { reportedCount: 1, reportedAtMs: clock.monotonicMs() };
    this.#series.set(key, { path, count: 1, lastObservedMs: clock.nowMs(), ...reported });
    const body = JSON.stringify(eventObject(event, stamp));
    this.#enqueue({ method: "POST", path: collection, contentType: "application/json", body });
  }

  /** The second time is reported at once, later ones with the next sweep. */
  #repeat(series: Series): void {
    series.count += 1;
    series.lastObservedMs = this.#dependencies.clock.nowMs();
    if (series.count === 2) this.#report(series);
  }

  #report(series: Series): void {
    series.reportedCount = series.count;
    series.reportedAtMs = this.#dependencies.clock.monotonicMs();
    this.#enqueue({
      method: "PATCH",
      path: series.path,
      contentType: "application/merge-patch+json",
      body: JSON.stringify(seriesPatch(series)),
    });
  }

  #sweep(): void {
    const { clock } = this.#dependencies;
    for (const [key, series] of this.#series) {
      const isOver = clock.nowMs() - series.lastObservedMs >= silenceMs;
      const isStale = clock.monotonicMs() - series.reportedAtMs >= refreshMs;
      if (series.count > series.reportedCount && (isOver || isStale)) this.#report(series);
      if (isOver) this.#series.delete(key);
    }
    this.#cancelSweep =
      this.#series.size === 0 ? undefined : clock.after(silenceMs, () => this.#sweep());
  }

  /** Nanoseconds since the epoch as hex digits, as client-go; never the same twice. */
  #stamp(): EventStamp {
    const timeMs = this.#dependencies.clock.nowMs();
    const wanted = BigInt(Math.round(timeMs)) * 1_000_000n;
    this.#lastSerial = wanted > this.#lastSerial ? wanted : this.#lastSerial + 1n;
    const serial = this.#lastSerial.toString(16);
    return { serial, timeMs, reportingInstance: this.#reportingInstance };
  }

  #enqueue(write: ApiWrite): void {
    if (this.#queue.length >= maxQueued) return;
    this.#queue.push(write);
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined;
    });
  }

  async #work(): Promise<void> {
    for (let write = this.#queue.shift(); write !== undefined; write = this.#queue.shift()) {
      await this.#deliver(write);
      if (this.#abort.signal.aborted) return;
    }
  }

  async #deliver(write: ApiWrite): Promise<void> {
    const { clock, log } = this.#dependencies;
    for (let attempt = 1; attempt <= maxTries; attempt += 1) {
      const problem = await this.#attempt(write);
      if (problem === undefined || this.#abort.signal.aborted) return;
      if (problem.isFinal) return this.#reportRefused(problem.text);
      log.verbose(2, "Cannot write Event, retrying", { err: problem.text, attempt });
      await sleep(clock, retryMs, this.#abort.signal);
    }
    log.warn("Dropping Event", { reason: "api-server-unreachable", tries: maxTries });
  }

  /** Undefined: it is written. */
  async #attempt(write: ApiWrite): Promise<Problem | undefined> {
    const { connection, clock } = this.#dependencies;
    const abort = new AbortController();
    const cancel = clock.after(requestTimeoutMs, () => abort.abort());
    const signal = AbortSignal.any([this.#abort.signal, abort.signal]);
    try {
      const { status, body } = await connection.send(write, signal);
      for await (const _chunk of body) if (signal.aborted) break;
      return problemOf(write, status);
    } catch (error) {
      return { isFinal: false, text: errorText(error) };
    } finally {
      cancel();
    }
  }

  #reportRefused(text: string): void {
    const keys = { reason: "event-refused", err: text };
    if (this.#hasReportedRefusal)
      this.#dependencies.log.verbose(2, "API server rejected Event", keys);
    else this.#dependencies.log.warn("API server rejected Event", keys);
    this.#hasReportedRefusal = true;
  }
}

interface Problem {
  /** A retry cannot help. */
  readonly isFinal: boolean;
  readonly text: string;
}

function problemOf({ method, path }: ApiWrite, status: number): Problem | undefined {
  // An event that exists already was written by a try whose answer was lost; one that is gone is too old.
  const isDone = status < 300 || (method === "POST" ? status === 409 : status === 404);
  if (isDone) return undefined;
  const advice =
    status === 403
      ? "; a ClusterRole bound to this user must allow create and patch of events in API group events.k8s.io, as system:node-proxier does"
      : "";
  const text = `Cannot ${method} ${path}: HTTP ${status}${advice}`;
  return { isFinal: status >= 400 && status < 500 && ![401, 429].includes(status), text };
}
