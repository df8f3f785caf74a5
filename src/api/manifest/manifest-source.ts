import { type FSWatcher, watch } from "node:fs";
import { readdir } from "node:fs/promises";
import { background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import { Exclusive } from "../../base/exclusive.ts";
import type { Logger } from "../../base/log.ts";
import { systemErrorText } from "../../base/system-error-text.ts";
import type { RecordOf } from "../decode/decode-object.ts";
import { TextPool } from "../decode/flat-text.ts";
import { LastKnownRecords, notifyOf } from "../last-known-records.ts";
import type { NodeRecord } from "../objects.ts";
import { printableText, withRefusal } from "../refusals.ts";
import type { InvalidObject, ObjectSource, ResourceKind, SourceListener } from "../source.ts";
import { IgnoredThings } from "./ignored-things.ts";
import { ManifestEndpoints } from "./manifest-endpoints.ts";
import {
  type EndpointSources,
  type ManifestFile,
  type ManifestObject,
  manifestRefusal,
  readManifestFile,
} from "./read-file.ts";

export interface ManifestSourceOptions {
  readonly folder: string;
  /** Only this Node is reported through `onNode`, as with an API server. */
  readonly nodeName: string;
  /** If undefined, only Services without a proxy name are selected. */
  readonly serviceProxyName?: string | undefined;
  /** Interval between additional reads, because the watch does not notice changes behind symbolic links. */
  readonly rescanMs?: number;
}

/** The order of notifications and onSynced calls. */
const kinds: readonly ResourceKind[] = ["nodes", "services", "endpointslices"];
/** Delay between a change and the read that follows it, because changes come in bursts. */
const debounceMs = 50;
const defaultTimes = { rescanMs: 10_000 };
const manifestName = /^[^.].*\.(ya?ml|json)$/;

/**
 * Reads objects from a folder of YAML or JSON files, without a cluster. Files are read in name order. If two objects
 * have the same name, the first one applies. If two Services claim the same address and port, the first Service owns
 * them. If a file cannot be parsed, its previous objects are kept.
 */
export class ManifestSource implements ObjectSource {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #options: ManifestSourceOptions & typeof defaultTimes;
  readonly #texts = new TextPool();
  #files = new Map<string, ManifestFile>();
  #lastKnown: { readonly [Kind in ResourceKind]: LastKnownRecords<RecordOf[Kind]> } | undefined;
  #listener: SourceListener | undefined;
  #watcher: FSWatcher | undefined;
  #cancelDebounce = (): void => {};
  #cancelRescan = (): void => {};
  readonly #ignored: IgnoredThings;
  readonly #endpoints: ManifestEndpoints;
  #duplicates = new Map<string, InvalidObject | undefined>();
  readonly #exclusive = new Exclusive();
  #problem: ReturnType<NonNullable<ObjectSource["problem"]>>;
  #isReadPlanned = false;
  #isStopped = false;

  constructor(
    dependencies: { readonly clock: Clock; readonly log: Logger },
    options: ManifestSourceOptions,
  ) {
    this.#clock = dependencies.clock;
    this.#log = dependencies.log;
    this.#ignored = new IgnoredThings(dependencies.log);
    this.#endpoints = new ManifestEndpoints(dependencies.log);
    this.#options = { ...defaultTimes, ...options };
  }

  /** Checks whether the folder can be read. Throws if it cannot. */
  async checkFolder(): Promise<void> {
    const { folder } = this.#options;
    try {
      await readdir(folder);
    } catch (error) {
      const advice = "create it, or set --manifests to another directory";
      const message = `Cannot read manifest directory ${folder}: ${systemErrorText(error)}; ${advice}`;
      throw new Error(message, { cause: error });
    }
  }

  /** Reports all objects before it resolves. Throws if the folder cannot be read. */
  async start(listener: SourceListener): Promise<void> {
    await this.checkFolder();
    this.#listener = listener;
    const notify = notifyOf(listener);
    this.#lastKnown = {
      services: new LastKnownRecords(notify.services),
      endpointslices: new LastKnownRecords(notify.endpointslices),
      nodes: new LastKnownRecords(notify.nodes),
    };
    this.#watchFolder();
    await this.refresh();
    for (const kind of this.#isStopped ? [] : kinds) listener.onSynced(kind);
    this.#planRescan();
  }

  invalidObjects(): readonly InvalidObject[] {
    const inFiles = [...this.#files.values()].flatMap(({ invalid }) => invalid);
    return [...inFiles, ...this.#duplicates.values()].filter((invalid) => invalid !== undefined);
  }

  problem(): ReturnType<NonNullable<ObjectSource["problem"]>> {
    return this.#problem;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelDebounce();
    this.#cancelRescan();
    this.#watcher?.close();
    await this.#exclusive.idle();
  }

  /** Reads changed files and reports the differences. Reads never overlap. */
  refresh(): Promise<void> {
    return this.#exclusive.run(() => this.#read());
  }

  async #read(): Promise<void> {
    const names = await this.#fileNames();
    if (names === undefined || this.#isStopped) return;
    const files = new Map<string, ManifestFile>();
    for (const name of names) {
      const file = await this.#readFile(name);
      if (this.#isStopped) return;
      if (file !== undefined) files.set(name, file);
    }
    const hasChanged = !isSameContent(files, this.#files);
    this.#files = files;
    if (hasChanged) this.#notifyAll();
  }

  /** Sorted names of manifest files. `undefined` if the folder cannot be read. */
  async #fileNames(): Promise<readonly string[] | undefined> {
    try {
      const entries = await readdir(this.#options.folder, { withFileTypes: true });
      this.#problem = undefined;
      for (const entry of entries) if (entry.isDirectory()) this.#ignored.subfolder(entry.name);
      const names = entries.map(({ name }) => name);
      return names.filter((name) => manifestName.test(name)).sort();
    } catch (error) {
      const { folder: directory } = this.#options;
      const err = systemErrorText(error);
      if (this.#problem === undefined)
        this.#log.warn("Manifest directory disappeared, keeping its objects", { directory, err });
      this.#problem ??= {
        message: `Cannot read manifest directory ${directory}: ${err}; its last objects are kept; restore the directory`,
        sinceMs: this.#clock.monotonicMs(),
      };
      this.#watcher?.close();
      this.#watcher = undefined;
      return undefined;
    }
  }

  #readFile(name: string): Promise<ManifestFile | undefined> {
    const file = { folder: this.#options.folder, name, nowMs: this.#clock.nowMs() };
    const refuse: SourceListener["onRefusal"] = (refused) => {
      if (!this.#isStopped) this.#listener?.onRefusal(refused);
    };
    const { serviceProxyName } = this.#options;
    return readManifestFile(file, this.#files.get(name), {
      refuse,
      texts: this.#texts,
      serviceProxyName,
      ignoreKind: (kind, where) => this.#ignored.kind(kind, where),
    });
  }

  #notifyAll(): void {
    const nodes = this.#nodes();
    this.#listener?.onNodes?.(nodes);
    const objects = [...this.#distinctObjects().values()];
    const zones = zonesOf(nodes);
    const made = this.#endpoints.make(endpointSourcesOf(objects), zones);
    this.#notifyKind("nodes", recordsOf("nodes", objects));
    this.#notifyKind("services", recordsOf("services", objects));
    const slices = recordsOf("endpointslices", objects);
    for (const slice of made) slices.set(slice.name, slice);
    this.#notifyKind("endpointslices", slices);
  }

  #notifyKind<Kind extends ResourceKind>(
    kind: Kind,
    records: ReadonlyMap<string, RecordOf[Kind] | undefined>,
  ): void {
    const lastKnown = this.#lastKnown?.[kind];
    for (const name of lastKnown?.names() ?? [])
      if (!records.has(name)) lastKnown?.put(name, undefined);
    for (const [name, record] of records) lastKnown?.put(name, record);
  }

  /** All Nodes in the folder. If two have the same name, the first one applies. */
  #nodes(): ReadonlyMap<string, NodeRecord> {
    const nodes = new Map<string, NodeRecord>();
    for (const { kind, name, record } of [...this.#files.values()].flatMap(
      ({ objects }) => objects,
    )) {
      if (kind === "nodes" && !nodes.has(name)) nodes.set(name, record as NodeRecord);
    }
    return nodes;
  }

  /** The first object with each name, excluding other Nodes. Each later one is reported once as invalid. */
  #distinctObjects(): ReadonlyMap<string, ManifestObject> {
    const objects = new Map<string, ManifestObject>();
    const duplicates = new Map<string, InvalidObject | undefined>();
    for (const object of [...this.#files.values()].flatMap((file) => file.objects)) {
      if (object.kind === "nodes" && object.name !== this.#options.nodeName) continue;
      const key = `${object.kind} ${object.name}`;
      const first = objects.get(key);
      if (first === undefined) {
        objects.set(key, object);
        continue;
      }
      const duplicate = `${key} ${object.where}`;
      const known = this.#duplicates.get(duplicate);
      duplicates.set(duplicate, known ?? this.#refuseDuplicate(object, first));
    }
    this.#duplicates = duplicates;
    return objects;
  }

  #refuseDuplicate(object: ManifestObject, first: ManifestObject): InvalidObject | undefined {
    const detail = `${object.name}, in ${first.where}`;
    const refused = manifestRefusal(object.where, "duplicate-object", { detail });
    this.#listener?.onRefusal(refused);
    return withRefusal(undefined, refused);
  }

  #watchFolder(): void {
    if (this.#watcher !== undefined || this.#isStopped) return;
    const { folder } = this.#options;
    try {
      const watcher = watch(folder, { persistent: false }, () => this.#readSoon());
      watcher.on("error", () => this.#dropWatcher(watcher));
      this.#watcher = watcher;
    } catch (error) {
      const keys = { directory: folder, err: printableText(systemErrorText(error)) };
      this.#log.verbose(1, "Cannot watch manifest directory, polling it instead", keys);
    }
  }

  #dropWatcher(watcher: FSWatcher): void {
    watcher.close();
    if (this.#watcher === watcher) this.#watcher = undefined;
  }

  /** Schedules a read unless one is scheduled already. A later change schedules another one. */
  #readSoon(): void {
    if (this.#isReadPlanned || this.#isStopped) return;
    this.#isReadPlanned = true;
    this.#cancelDebounce = this.#clock.after(debounceMs, () => {
      this.#isReadPlanned = false;
      background(this.refresh(), this.#log, "reading manifests");
    });
  }

  #planRescan(): void {
    if (this.#isStopped) return;
    this.#cancelRescan = this.#clock.after(this.#options.rescanMs, () => {
      const rescan = this.refresh().finally(() => {
        if (this.#problem === undefined) this.#watchFolder();
        this.#planRescan();
      });
      background(rescan, this.#log, "reading manifests");
    });
  }
}

function recordsOf<Kind extends ResourceKind>(
  kind: Kind,
  objects: readonly ManifestObject[],
): Map<string, RecordOf[Kind] | undefined> {
  const ofKind = objects.filter((object) => object.kind === kind);
  // The record's type matches the object's kind.
  return new Map(ofKind.map(({ name, record }) => [name, record as RecordOf[Kind] | undefined]));
}

function endpointSourcesOf(objects: readonly ManifestObject[]): EndpointSources {
  return {
    pods: objects.flatMap(({ endpointSources }) => endpointSources.pods ?? []),
    services: objects.flatMap(({ endpointSources }) => endpointSources.services ?? []),
    slices: objects.flatMap(({ endpointSources }) => endpointSources.slices ?? []),
  };
}

function zonesOf(nodes: ReadonlyMap<string, NodeRecord>): ReadonlyMap<string, string> {
  return new Map(
    [...nodes].flatMap(([name, { zone }]) => (zone === undefined ? [] : [[name, zone] as const])),
  );
}

function isSameContent(
  left: ReadonlyMap<string, ManifestFile>,
  right: ReadonlyMap<string, ManifestFile>,
): boolean {
  if (left.size !== right.size) return false;
  return [...left].every(([name, file]) => right.get(name)?.objects === file.objects);
}
