/**
 * A file that carries facts about the kernel over a restart of the program, and not over a boot: the kernel's state is
 * gone then. It is replaced as a whole. One that is missing, foreign or broken means that nothing is known; a folder
 * that cannot be written is reported once and is no error.
 */

import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { mkdir, rename, unlink, writeFile } from "node:fs/promises";
import { uptime } from "node:os";
import { basename, dirname, join } from "node:path";
import { attempt } from "../../base/attempt.ts";
import { background } from "../../base/background.ts";
import { isRecord } from "../../base/is-record.ts";
import type { Logger } from "../../base/log.ts";
import { parseJson } from "../../base/parse-json.ts";
import { systemErrorCode, systemErrorText } from "../../base/system-error-text.ts";

/** Time since the machine was started. */
export interface BootClock {
  /** Differs from boot to boot. */
  readonly bootId: string;
  /** Milliseconds, suspended time included. */
  uptimeMs(): number;
}

/** The machine's own. Without a boot id (no /proc) nothing is ever recalled. */
export function systemBootClock(): BootClock {
  const bootId = attempt(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim());
  return { bootId: bootId ?? "", uptimeMs: () => uptime() * 1000 };
}

const maxBytes = 2 ** 21;
const version = 1;

export type FileContent = Readonly<Record<string, unknown>>;

/** What an earlier program of this boot left. */
export interface Recalled {
  /** Empty where it is not known. */
  readonly content: FileContent;
  /** Why it is not known; undefined: it is. */
  readonly whyUnknown: string | undefined;
  /** There is a file, and it cannot be read. */
  readonly isBroken?: true;
}

/** Reads the file at `path`; an empty path: there is none. */
export function readBootFile(path: string, { bootId }: BootClock): Recalled {
  if (path === "") return unknown("no drain start times file is configured");
  let content: unknown;
  try {
    content = parseJson(readBounded(path));
  } catch (error) {
    if (isMissing(error)) return unknown(`${path} does not exist`);
    // What is no folder is reported by whoever writes there.
    if (systemErrorCode(error) === "ENOTDIR") return unknown(`${path}: ${systemErrorText(error)}`);
    return { ...unknown(`${path}: ${systemErrorText(error)}`), isBroken: true };
  }
  const isOurs =
    isRecord(content) &&
    content["version"] === version &&
    bootId !== "" &&
    content["bootId"] === bootId;
  return isOurs
    ? { content: content as FileContent, whyUnknown: undefined }
    : unknown(writtenByOther(path));
}

/** Warns of a file that is there and cannot be read; `effect`: what is not known without it. */
export function reportBroken(recalled: Recalled, log: Logger, effect: string): void {
  const { whyUnknown: err = "", isBroken = false } = recalled;
  if (isBroken) log.warn("Cannot read the record of an earlier run", { err, effect });
}

export interface BootFileParts {
  readonly log: Logger;
  readonly bootClock: BootClock;
  /** The log line where it cannot be written. */
  readonly failureEvent: string;
}

/** Writes the newest content in the background; what came in between is left out. */
export class BootFileWriter {
  readonly #path: string;
  readonly #parts: BootFileParts;
  /** The newest content that is not written yet; it is made when it is written. */
  #unwritten: (() => FileContent | undefined) | undefined;
  #writing: Promise<void> | undefined;
  #mayExist: boolean;
  #isTrouble = false;

  /** `path` empty: nothing is written. */
  constructor(path: string, parts: BootFileParts) {
    this.#path = path;
    this.#parts = parts;
    this.#mayExist = path !== "";
  }

  /** Does not wait, never throws. Content undefined: no file. */
  write(content: () => FileContent | undefined): void {
    if (this.#path === "") return;
    this.#unwritten = content;
    if (this.#writing !== undefined) return;
    this.#writing = this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
    background(this.#writing, this.#parts.log, this.#path);
  }

  /** Resolves when everything given so far is in the file, or could not be written. */
  async idle(): Promise<void> {
    await this.#writing;
  }

  async #writeAll(): Promise<void> {
    while (this.#unwritten !== undefined) {
      const content = this.#unwritten;
      this.#unwritten = undefined;
      try {
        await this.#replace(content());
        this.#isTrouble = false;
      } catch (error) {
        // A full disk still deletes: without a record, the next start does not take an old one for the present.
        await unlinkIfThere(this.#path).catch(() => undefined);
        this.#reportTrouble(error);
      }
    }
  }

  async #replace(content: FileContent | undefined): Promise<void> {
    if (content === undefined) {
      if (this.#mayExist) await unlinkIfThere(this.#path);
      this.#mayExist = false;
      return;
    }
    this.#mayExist = true;
    const { bootId } = this.#parts.bootClock;
    await replaceFile(this.#path, JSON.stringify({ version, bootId, ...content }));
  }

  #reportTrouble(error: unknown): void {
    if (this.#isTrouble) return;
    this.#isTrouble = true;
    const { log, failureEvent } = this.#parts;
    log.info(failureEvent, { path: this.#path, err: systemErrorText(error) });
  }
}

/** Of the file called so that lies beside the file of drain start times; empty where there is none. */
export function pathBeside(drainStartTimesPath: string, name: string): string {
  if (drainStartTimesPath === "") return "";
  const stem = basename(drainStartTimesPath, ".json");
  return join(dirname(drainStartTimesPath), `${stem}-${name}.json`);
}

/** Removes the file, and what a writer that was killed left beside it; says whether there was one. */
export async function removeBootFile(path: string): Promise<boolean> {
  if (path === "") return false;
  await unlinkIfThere(temporaryOf(path));
  return unlinkIfThere(path);
}

async function unlinkIfThere(path: string): Promise<boolean> {
  try {
    await unlink(path);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

function temporaryOf(path: string): string {
  return `${path}.new`;
}

function unknown(whyUnknown: string): Recalled {
  return { content: {}, whyUnknown };
}

export function writtenByOther(path: string): string {
  return `${path} was written in another boot or by another version`;
}

function isMissing(error: unknown): boolean {
  return systemErrorCode(error) === "ENOENT";
}

/** Only a plain file of a bearable size: neither a pipe that waits nor a link to somewhere else. */
function readBounded(path: string): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const status = fstatSync(file);
    if (!status.isFile()) throw new Error("not a regular file");
    if (status.size > maxBytes) throw new Error(`larger than ${maxBytes} bytes`);
    return readFileSync(file, "utf8");
  } finally {
    closeSync(file);
  }
}

/** A reader sees the old file or the new one, whenever the program is killed. */
async function replaceFile(path: string, text: string): Promise<void> {
  const temporary = temporaryOf(path);
  await mkdir(dirname(path), { recursive: true });
  await unlinkIfThere(temporary);
  try {
    await writeFile(temporary, text, { flag: "wx", mode: 0o600 });
    await rename(temporary, path);
  } catch (error) {
    await unlinkIfThere(temporary).catch(() => undefined);
    throw error;
  }
}
