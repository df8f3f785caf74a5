/**
 * The file that says, after a restart, whose the virtual servers are of which the kernel's sets say nothing, and which
 * Service holds an address that several claim: docs/decisions/0013 and 0016. It is written after the kernel; a program
 * that is killed in between leaves what the kernel shows.
 */
import { isDeepStrictEqual } from "node:util";
import { isRecord } from "../../base/is-record.ts";
import type { Logger } from "../../base/log.ts";
import type { Holder, Holders } from "../../plan/claims/claim.ts";
import type { HolderRecord } from "../../plan/claims/holder-record.ts";
import type { RecordedOwnership } from "../../reconcile/ownership/classify.ts";
import type { OwnershipRecord } from "../../reconcile/ownership/ownership.ts";
import {
  type BootClock,
  BootFileWriter,
  type FileContent,
  pathBeside,
  readBootFile,
  reportBroken,
  systemBootClock,
} from "./boot-file.ts";

/** Keys are at most about 60 characters; more than there can be node ports on a few addresses. */
const maxKeys = 20_000;
/**
 * Of keys and names of holders together: names are up to 317 characters, and a file that is too long is not read at all,
 * ownership included. Of what is left out age decides after a restart.
 */
const maxHolderNamesLength = 2 ** 19;

export function ownershipRecordPath(drainStartTimesPath: string): string {
  return pathBeside(drainStartTimesPath, "ownership");
}

/** What the daemon would know at a start; nothing is recorded. */
export function readOwnershipRecord(drainStartTimesPath: string): OwnershipRecord & HolderRecord {
  const path = ownershipRecordPath(drainStartTimesPath);
  const { ownership: recorded, held } = readRecord(path, systemBootClock());
  return { recorded, held, keep() {}, keepHolders() {}, async idle() {} };
}

/** Virtual servers by key, in a file that is replaced as a whole. */
export class OwnershipRecordFile implements OwnershipRecord, HolderRecord {
  readonly recorded: RecordedOwnership;
  readonly held: Holders;
  readonly #writer: BootFileWriter;
  #ownership: Content["ownership"];
  #holders: Content["holders"];

  /** Reads the file. `path` empty: there is none. */
  constructor(path: string, parts: { readonly log: Logger; readonly bootClock: BootClock }) {
    const { ownership, held } = readRecord(path, parts.bootClock, parts.log);
    this.recorded = ownership;
    this.held = held;
    this.#ownership = ownershipContent(ownership);
    this.#holders = holdersContent([...held]);
    const failureEvent = "Cannot save the ownership record, a restart relies on the sets alone";
    this.#writer = new BootFileWriter(path, { ...parts, failureEvent });
  }

  keep(ownership: RecordedOwnership): void {
    this.#ownership = ownershipContent(ownership);
    this.#write();
  }

  keepHolders(...all: readonly Holders[]): void {
    const content = holdersContent(all.flatMap((holders) => [...holders]));
    if (isDeepStrictEqual(content, this.#holders)) return;
    this.#holders = content;
    this.#write();
  }

  /** Resolves when everything given so far is in the file, or could not be written. */
  idle(): Promise<void> {
    return this.#writer.idle();
  }

  #write(): void {
    const content = { ...this.#ownership, ...(this.#holders && { holders: this.#holders }) };
    const { owned, foreign, holders } = content;
    const isEmpty = owned.length + foreign.length === 0 && holders === undefined;
    this.#writer.write((): FileContent | undefined => (isEmpty ? undefined : content));
  }
}

/** As it is in the file. */
interface Content {
  readonly ownership: { readonly owned: readonly string[]; readonly foreign: readonly string[] };
  /** Name of the Service and seconds since the epoch when it was created, by key; absent: nothing is contested. */
  readonly holders: Readonly<Record<string, readonly [string, number]>> | undefined;
}

interface Recalled {
  readonly ownership: RecordedOwnership;
  readonly held: Holders;
}

function readRecord(path: string, bootClock: BootClock, log?: Logger): Recalled {
  const recalled = readBootFile(path, bootClock);
  if (log !== undefined)
    reportBroken(recalled, log, "what the sets do not name is not taken for ours");
  const { owned, foreign, holders } = recalled.content;
  return {
    ownership: { owned: keysFrom(owned), foreign: keysFrom(foreign) },
    held: holdersFrom(holders),
  };
}

function ownershipContent({ owned, foreign }: RecordedOwnership): Content["ownership"] {
  return { owned: first(owned), foreign: first(foreign) };
}

function holdersContent(holders: readonly (readonly [string, Holder])[]): Content["holders"] {
  if (holders.length === 0) return undefined;
  const entries: [string, [string, number]][] = [];
  let length = 0;
  for (const [key, { service, createdAtSeconds }] of holders) {
    length += key.length + service.length;
    if (entries.length === maxKeys || length > maxHolderNamesLength) break;
    entries.push([key, [service, createdAtSeconds]]);
  }
  return Object.fromEntries(entries);
}

function holdersFrom(value: unknown): Holders {
  if (!isRecord(value)) return new Map();
  const entries = Object.entries(value).slice(0, maxKeys);
  return new Map(
    entries.flatMap(([key, holder]): (readonly [string, Holder])[] => {
      if (!Array.isArray(holder)) return [];
      const [service, createdAtSeconds] = holder as readonly unknown[];
      if (typeof service !== "string" || typeof createdAtSeconds !== "number") return [];
      return [[key, { service, createdAtSeconds }]];
    }),
  );
}

function first(keys: ReadonlySet<string>): readonly string[] {
  return [...keys].slice(0, maxKeys);
}

function keysFrom(value: unknown): ReadonlySet<string> {
  if (!Array.isArray(value)) return new Set();
  return new Set(value.filter((key) => typeof key === "string").slice(0, maxKeys));
}
