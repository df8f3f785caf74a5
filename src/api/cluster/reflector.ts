import { type Clock, sleep } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";
import {
  ApiError,
  isAnswered,
  isEndless,
  isGone,
  isOutage,
  isSilence,
  needsList,
} from "../api-error.ts";
import type { ApiConnection } from "../connection.ts";
import type { DecodeContext } from "../decode/fields.ts";
import { TextPool } from "../decode/flat-text.ts";
import { LastKnownRecords } from "../last-known-records.ts";
import { type Refuse, withRefusal } from "../refusals.ts";
import type { InvalidObject } from "../source.ts";
import { type ListHead, malformed, parsed, readListHead, readWatchEvent } from "./answers.ts";
import { BackOff } from "./back-off.ts";
import { LineSplitter } from "./line-splitter.ts";
import { confirmAfterMs, ListGuard } from "./list-guard.ts";
import { readPages } from "./list-pages.ts";
import { ListSplitter } from "./list-splitter.ts";
import { ListTerms } from "./list-terms.ts";
import { knownKeys, ListedObjects } from "./listed-objects.ts";
import type { ReflectorTarget } from "./reflector-target.ts";
import { expectNewer } from "./resource-version.ts";
import { ResourceSelectors } from "./selectors.ts";
import { readBody } from "./watched-request.ts";
import type { WatchedResource } from "./watched-resources.ts";

export interface ReflectorDependencies {
  readonly connection: ApiConnection;
  readonly clock: Clock;
  readonly log: Logger;
  /** Returns numbers from 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  /** If undefined, every complete list is applied immediately. */
  readonly guard?: { readonly percent: number };
}

/** Larger objects are errors. The API server itself limits objects to a few megabytes. */
const objectLimitBytes = 64 * 1024 * 1024;
const listIdleMs = 60_000;
/** The API server sends a bookmark about once a minute. 150 s without one means that the connection is dead. */
const watchIdleMs = 150_000;
/** Requested duration of a watch. Up to 100% random jitter is added. */
const watchSeconds = 300;
/** A watch that the server ends sooner than this, without an event, is a failure. */
const shortWatchMs = 1_000;
/** After this many consecutive error responses or silent watches, a new list is necessary. */
const failuresBeforeList = 3;

/**
 * Keeps the listener in sync with one API resource: lists it, then watches from the list's version. Retries every
 * failure indefinitely. After a gap in the history, lists again and notifies the listener only of the differences.
 */
export class Reflector<T> {
  readonly #dependencies: Omit<ReflectorDependencies, "guard">;
  readonly #resource: WatchedResource;
  readonly #target: ReflectorTarget<T>;
  readonly #log: Logger;
  readonly #records: LastKnownRecords<T>;
  readonly #invalid = new Map<string, InvalidObject>();
  readonly #texts = new TextPool();
  readonly #backOff: BackOff;
  readonly #guard: ListGuard;
  /** The listener was notified of everything up to this resourceVersion. `undefined` if a list is needed. */
  #resourceVersion: string | undefined;
  readonly #terms = new ListTerms();
  readonly #selectors: ResourceSelectors;
  #isSynced = false;
  #failedWatches = 0;
  /** Whether the connection failed after the last list or watch. */
  #mayBeRestored = false;
  #troubleSinceMs: number | undefined;

  constructor(
    { guard, ...dependencies }: ReflectorDependencies,
    resource: WatchedResource,
    target: ReflectorTarget<T>,
  ) {
    this.#dependencies = dependencies;
    this.#resource = resource;
    this.#selectors = new ResourceSelectors(resource);
    this.#target = target;
    this.#log = dependencies.log.with({ resource: resource.kind });
    this.#records = new LastKnownRecords<T>(target.notify);
    this.#backOff = new BackOff(dependencies.clock, dependencies.random);
    this.#guard = new ListGuard({
      clock: dependencies.clock,
      percent: guard?.percent ?? 0,
      onQuarantine: target.onListQuarantine,
    });
  }

  invalidObjects(): Iterable<InvalidObject> {
    return this.#invalid.values();
  }

  /** Runs until `signal` aborts, and calls no callback afterwards. Never throws. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (this.#resourceVersion === undefined) await this.#list(signal);
        else await this.#watch(this.#resourceVersion, signal);
      } catch (error) {
        if (!signal.aborted) await this.#recover(error, signal);
      }
    }
    this.#guard.stop();
  }

  /** Reports every object, then the removals. A quarantined list waits for a second list that confirms it. */
  async #list(signal: AbortSignal): Promise<void> {
    const listedBefore = knownKeys(this.#target, this.#records);
    const listed = new ListedObjects(this.#target, this.#records);
    const head = await readPages(this.#resource, (token) => this.#listPage(token, listed, signal));
    if (signal.aborted) return;
    this.#terms.noteComplete();
    const known = await this.#withServed(listedBefore);
    if (signal.aborted) return;
    const take = (): void => this.#takeList(listed, head);
    // If a quarantined list expired during the request and was applied, this newer list is applied as well.
    if (this.#resourceVersion !== undefined) take();
    else if (!this.#guard.judge(known, listed, take)) await this.#awaitSecond(signal);
  }

  /**
   * Reads the served addresses only when needed and does not keep them, because a large cluster has megabytes of them.
   */
  async #withServed(listed: ReadonlySet<string>): Promise<ReadonlySet<string>> {
    const { servedBefore } = this.#target;
    if (this.#isSynced || servedBefore === undefined) return listed;
    return new Set([...(await servedBefore()), ...listed]);
  }

  /** The second list requests the latest state, bypassing the server's cache. */
  async #awaitSecond(signal: AbortSignal): Promise<void> {
    this.#terms.askForNewest();
    await sleep(this.#dependencies.clock, confirmAfterMs, signal);
  }

  #takeList(listed: ListedObjects<T>, head: ListHead): void {
    listed.takeAway();
    for (const name of this.#invalid.keys()) if (!listed.has(name)) this.#invalid.delete(name);
    this.#mayBeRestored = false;
    this.#advance(head.resourceVersion);
    if (this.#isSynced) return;
    this.#isSynced = true;
    this.#log.verbose(1, "Listed", { count: this.#records.size });
    this.#target.onSynced();
  }

  async #listPage(token: string, listed: ListedObjects<T>, signal: AbortSignal): Promise<ListHead> {
    const splitter = new ListSplitter(objectLimitBytes);
    const query = { ...this.#selectors.current, ...this.#terms.query(token) };
    await this.#read(query, { idleMs: listIdleMs, signal }, (chunk) => {
      for (const item of splitter.push(chunk)) {
        if (!signal.aborted) this.#notifyObject(item, listed);
      }
    });
    if (signal.aborted) return { resourceVersion: "", continueToken: "" };
    const envelope = parsed(this.#resource, () => splitter.end());
    return readListHead(this.#resource, envelope);
  }

  async #watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#dependencies;
    if (this.#mayBeRestored) await this.#expectSameHistory(resourceVersion, signal);
    const openedAtMs = clock.monotonicMs();
    const lines = new LineSplitter(objectLimitBytes);
    const query = {
      ...this.#selectors.current,
      watch: "true",
      allowWatchBookmarks: "true",
      resourceVersion,
      timeoutSeconds: String(Math.floor(watchSeconds * (1 + random()))),
    };
    await this.#read(query, { idleMs: watchIdleMs, signal }, (chunk) => {
      for (const line of lines.push(chunk)) if (!signal.aborted) this.#takeLine(line);
    });
    if (signal.aborted) return;
    if (!lines.isEmpty)
      throw malformed(this.#resource, "the watch ended in the middle of an event");
    if (
      this.#resourceVersion === resourceVersion &&
      clock.monotonicMs() - openedAtMs < shortWatchMs
    ) {
      const message = `Cannot watch ${this.#resource.name}: the API server closed the watch immediately`;
      throw new ApiError(message, { reason: "short-watch", resource: this.#resource.name });
    }
  }

  /**
   * Throws ApiError `older-history` if the server was restored from a backup during an outage. Such a server would
   * accept the watch, send nothing until its versions exceed the watch's version, and never report the changes in
   * between.
   */
  async #expectSameHistory(position: string, signal: AbortSignal): Promise<void> {
    const splitter = new ListSplitter(objectLimitBytes);
    // Without a version, the answer does not come from a cache, which may lag behind.
    const query = { limit: "1", resourceVersion: "" };
    await this.#read(query, { idleMs: listIdleMs, signal }, (chunk) => {
      for (const _ of splitter.push(chunk));
    });
    if (signal.aborted) return;
    const envelope = parsed(this.#resource, () => splitter.end());
    const { resourceVersion } = readListHead(this.#resource, envelope);
    expectNewer(this.#resource, resourceVersion, position);
    this.#mayBeRestored = false;
  }

  #read(
    query: Readonly<Record<string, string>>,
    { idleMs, signal }: { readonly idleMs: number; readonly signal: AbortSignal },
    take: (chunk: Uint8Array) => void,
  ): Promise<void> {
    const opened = (): void => this.#noteAnswer();
    const request = { resource: this.#resource, query, idleMs, signal, opened };
    return readBody(this.#dependencies, request, take);
  }

  #takeLine(line: string): void {
    const { type, object, resourceVersion } = readWatchEvent(this.#resource, line);
    if (this.#resourceVersion !== undefined)
      expectNewer(this.#resource, resourceVersion, this.#resourceVersion);
    if (type === "DELETED") this.#notifyRemoval(object);
    else if (type !== "BOOKMARK") this.#notifyObject(object);
    if (resourceVersion !== "") this.#advance(resourceVersion);
  }

  #notifyObject(object: unknown, into: Pick<ListedObjects<T>, "put"> = this.#records): void {
    let invalid: InvalidObject | undefined;
    const refuse: Refuse = (refused) => {
      invalid = withRefusal(invalid, refused);
      this.#target.onRefusal(refused);
    };
    const decoded = this.#target.decode(object, this.#context(refuse));
    if (decoded === undefined) return;
    const { name } = decoded.identity;
    if (invalid === undefined) this.#invalid.delete(name);
    else this.#invalid.set(name, invalid);
    into.put(name, decoded.record);
  }

  /** Ignores invalid fields, because the object has been deleted. */
  #notifyRemoval(object: unknown): void {
    const decoded = this.#target.decode(object, this.#context(ignore));
    if (decoded === undefined) return;
    this.#invalid.delete(decoded.identity.name);
    this.#records.put(decoded.identity.name, undefined);
  }

  #context(refuse: Refuse): DecodeContext {
    const { serviceProxyName } = this.#resource;
    return { refuse, texts: this.#texts, serviceProxyName };
  }

  /** Records that the listener was notified of everything up to this version. */
  #advance(resourceVersion: string): void {
    this.#resourceVersion = resourceVersion;
    this.#failedWatches = 0;
  }

  #noteAnswer(): void {
    if (this.#troubleSinceMs === undefined) return;
    const downMs = this.#dependencies.clock.monotonicMs() - this.#troubleSinceMs;
    this.#troubleSinceMs = undefined;
    this.#log.info("API server is reachable again", { seconds: Math.round(downMs / 1000) });
  }

  async #recover(error: unknown, signal: AbortSignal): Promise<void> {
    const reason = error instanceof ApiError ? error.reason : "unexpected";
    if (this.#dropsSelectors(error)) return;
    if (isOutage(error)) this.#mayBeRestored = true;
    if (isAnswered(error) || isSilence(error)) this.#failedWatches += 1;
    if (needsList(error)) this.#relist();
    else if (this.#resourceVersion === undefined) this.#noteFailedList(error);
    else if (this.#failedWatches >= failuresBeforeList) this.#listFrom(this.#resourceVersion);
    const { clock } = this.#dependencies;
    const delayMs = this.#backOff.nextDelayMs(error instanceof ApiError ? error.retryAfterMs : 0);
    const keys = { reason, err: errorText(error), retryInMs: Math.round(delayMs) };
    if (isOrdinary(error)) this.#log.verbose(1, "Resuming interrupted watch", keys);
    else this.#logTrouble(keys);
    await sleep(clock, delayMs, signal);
  }

  /**
   * Drops selectors that the server does not know. Returns true if the request must be repeated immediately without
   * them.
   */
  #dropsSelectors(error: unknown): boolean {
    const dropped = error instanceof ApiError ? this.#selectors.dropUnknown(error) : undefined;
    if (dropped === undefined) return false;
    this.#noteAnswer();
    this.#log.info("API server does not support a selector, filtering locally", dropped);
    return true;
  }

  #listFrom(resourceVersion: string): void {
    this.#resourceVersion = undefined;
    this.#terms.askForNotOlderThan(resourceVersion);
  }

  #noteFailedList(error: unknown): void {
    if (isEndless(error)) this.#terms.noteUselessPages();
    else if (isAnswered(error)) this.#terms.noteRefusal();
  }

  #relist(): void {
    if (this.#resourceVersion === undefined) this.#terms.noteUselessPages();
    this.#resourceVersion = undefined;
    this.#terms.askForNewest();
  }

  /**
   * Warns at the first failure and then whenever the number of failures has doubled, so that a long outage does not
   * fill the disk.
   */
  #logTrouble(keys: Readonly<Record<string, unknown>>): void {
    const { failures } = this.#backOff;
    const isLoud = this.#troubleSinceMs === undefined || (failures & (failures - 1)) === 0;
    this.#troubleSinceMs ??= this.#dependencies.clock.monotonicMs();
    if (isLoud) this.#log.warn("Cannot read from the API server, retrying", { ...keys, failures });
    else this.#log.verbose(2, "Cannot read from the API server, retrying", { ...keys, failures });
  }
}

const ignore: Refuse = () => {};

/**
 * Whether the error is an expired resourceVersion or a silent connection. Both are normal. If the server has a problem,
 * the next request fails with another error.
 */
function isOrdinary(error: unknown): boolean {
  return isGone(error) || isSilence(error);
}
