/**
 * The file that says, after a restart, whose the virtual servers are of which the kernel's sets say nothing:
 * docs/decisions/0013. It is written after the kernel; a program that is killed in between leaves what the sets say.
 */
import { basename, dirname, join } from "node:path";
import type { Logger } from "../../base/log.ts";
import type { RecordedOwnership } from "../../reconcile/ownership/classify.ts";
import type { OwnershipRecord } from "../../reconcile/ownership/ownership.ts";
import {
  type BootClock,
  BootFileWriter,
  type FileContent,
  readBootFile,
  systemBootClock,
} from "./boot-file.ts";

/** Keys are at most about 60 characters; more than there can be node ports on a few addresses. */
const maxKeys = 20_000;

/** Beside the file of drain start times; empty where there is none. */
export function ownershipRecordPath(drainStartTimesPath: string): string {
  if (drainStartTimesPath === "") return "";
  const name = basename(drainStartTimesPath, ".json");
  return join(dirname(drainStartTimesPath), `${name}-ownership.json`);
}

export function readOwnership(path: string, bootClock: BootClock): RecordedOwnership {
  const recalled = readBootFile(path, bootClock);
  const content = recalled.kind === "read" ? recalled.content : {};
  return { owned: keysFrom(content["owned"]), foreign: keysFrom(content["foreign"]) };
}

/** What the daemon would know at a start; nothing is recorded. */
export function readOwnershipRecord(drainStartTimesPath: string): OwnershipRecord {
  const path = ownershipRecordPath(drainStartTimesPath);
  return { recorded: readOwnership(path, systemBootClock()), keep() {}, async idle() {} };
}

/** Keys of virtual servers in a file that is replaced as a whole. */
export class OwnershipRecordFile implements OwnershipRecord {
  readonly recorded: RecordedOwnership;
  readonly #writer: BootFileWriter;

  /** Reads the file. `path` empty: there is none. */
  constructor(path: string, parts: { readonly log: Logger; readonly bootClock: BootClock }) {
    this.recorded = readOwnership(path, parts.bootClock);
    const failureEvent = "Cannot save the ownership record, a restart relies on the sets alone";
    this.#writer = new BootFileWriter(path, { ...parts, failureEvent });
  }

  keep({ owned, foreign }: RecordedOwnership): void {
    const content = { owned: first(owned), foreign: first(foreign) };
    const isEmpty = content.owned.length + content.foreign.length === 0;
    this.#writer.write((): FileContent | undefined => (isEmpty ? undefined : content));
  }

  /** Resolves when everything given so far is in the file, or could not be written. */
  idle(): Promise<void> {
    return this.#writer.idle();
  }
}

function first(keys: ReadonlySet<string>): readonly string[] {
  return [...keys].slice(0, maxKeys);
}

function keysFrom(value: unknown): ReadonlySet<string> {
  if (!Array.isArray(value)) return new Set();
  return new Set(value.filter((key) => typeof key === "string").slice(0, maxKeys));
}
