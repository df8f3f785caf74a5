import { type Clock, sleep } from "../../../base/clock.ts";
import { errorText } from "../../../base/error-text.ts";
import type { Logger } from "../../../base/log.ts";
import type { ApiConnection, ApiWrite } from "../../connection.ts";
import type { ClusterEvent, EventRecorder } from "../../event.ts";
import type { EndpointSliceRecord } from "../../objects.ts";
import { sendWrite } from "../send-write.ts";
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

/** One or more occurrences, and the API object that reports them. */
interface Series {
  readonly path: string;
  count: number;
  lastObservedMs: number;
  /** The count in the API object. */
  reportedCount: number;
  reportedAtMs: number;
}

/** As in client-go: a burst of 25 Events about an object, then one every five minutes. */
const spam = { burst: 25, intervalMs: 300_000 } as const;
const maxQueued = 1_000;
const maxTries = 12;
const retryMs = 10_000;
/** A series ends after this long without another occurrence. */
const silenceMs = 360_000;
/** Interval at which a continuing series is reported again. */
const refreshMs = 1_800_000;
/** Time allowed for writing the remaining queue when the program stops. */
const stopGraceMs = 300;

/**
 * Writes Events to the API server in the background, one after the other, so `record` never waits. Repeated occurrences
 * become a series in the first object. Needs permission to create and patch events.events.k8s.io, which
 * system:node-proxier grants. Logs once if that permission is missing.
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

  /** `hostname` is the machine's own name, not the Node's name. */
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

  /** Gives queued writes a short time, then drops the rest. */
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

  /** Reports the second occurrence immediately and later ones with the next sweep. */
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

  /** Uses nanoseconds since the epoch as hex digits, like client-go. Never returns the same serial twice. */
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

  /** Tries once to write an Event. Returns undefined if it was written. */
  async #attempt(write: ApiWrite): Promise<Problem | undefined> {
    try {
      return problemOf(write, await sendWrite(this.#dependencies, write, this.#abort.signal));
    } catch (error) {
      return { isFinal: false, text: errorText(error) };
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
  /** Whether retries are pointless. */
  readonly isFinal: boolean;
  readonly text: string;
}

function problemOf({ method, path }: ApiWrite, status: number): Problem | undefined {
  // If the Event already exists, the response to an earlier attempt was lost. If the patched Event no longer exists,
  // it has expired.
  const isDone = status < 300 || (method === "POST" ? status === 409 : status === 404);
  if (isDone) return undefined;
  const advice =
    status === 403
      ? "; a ClusterRole bound to this user must allow create and patch on events in API group events.k8s.io, as system:node-proxier does"
      : "";
  const text = `Cannot ${method} ${path}: HTTP ${status}${advice}`;
  return { isFinal: status >= 400 && status < 500 && ![401, 429].includes(status), text };
}
