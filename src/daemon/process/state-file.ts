/**
 * The file that preserves facts across program restarts. It is not valid after a reboot, because the kernel state is
 * then lost. The `*-record.ts` modules and `drain-start-times.ts` define its sections, and every write replaces the
 * whole file. A missing, foreign or broken file is treated as empty. A folder that is not writable is logged once and
 * is not an error.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { mkdir, rename, unlink, writeFile } from "node:fs/promises";
import { uptime } from "node:os";
import { dirname, join } from "node:path";
import { attempt } from "../../base/attempt.ts";
import { background } from "../../base/background.ts";
import { isRecord } from "../../base/is-record.ts";
import { type Logger, silentLogger } from "../../base/log.ts";
import { parseJson } from "../../base/parse-json.ts";
import { systemErrorCode, systemErrorText } from "../../base/system-error-text.ts";

/** The time since the machine booted. */
export interface BootClock {
  /** Differs after each boot. */
  readonly bootId: string;
  /** Milliseconds since boot, including suspended time. */
  uptimeMs(): number;
}

/** The machine's boot clock. Without a boot ID (no /proc), the state file is never used. */
export function systemBootClock(): BootClock {
  const bootId = attempt(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim());
  return { bootId: bootId ?? "", uptimeMs: () => uptime() * 1000 };
}

const maxBytes = 2 ** 23;
const version = 1;

type Content = Readonly<Record<string, unknown>>;

export interface StateFileOptions {
  readonly log: Logger;
  readonly bootClock: BootClock;
  /** For the log: the consequence if the file cannot be read. */
  readonly effect: string;
  /** The log message if the file cannot be written. */
  readonly failureEvent: string;
  /** Files of an earlier version, which are read if this file does not exist, and removed at the first write. */
  readonly formerPaths?: readonly string[];
  readonly isReadOnly?: boolean;
}

/** The sections of a state file, which tests keep in memory. */
export type KeptState = Pick<StateFile, "content" | "keep" | "idle">;

export class StateFile {
  /** The sections that an earlier run wrote since the last boot. Empty if they are unknown. */
  readonly content: Content;
  /** Why the sections are unknown. Undefined if they are known. */
  readonly whyUnknown: string | undefined;
  readonly #path: string;
  readonly #options: StateFileOptions;
  /** The JSON of each section to write. Sections that `keep` does not replace are preserved. */
  readonly #texts: Map<string, string>;
  /** Sections that the next write replaces. Their values are computed during that write. */
  readonly #pending = new Map<string, () => unknown>();
  #writing: Promise<void> | undefined;
  #isFileCurrent = false;
  #isTrouble = false;

  /** Reads the file. If the path is empty, nothing is read or written. */
  constructor(path: string, options: StateFileOptions) {
    this.#path = path;
    this.#options = options;
    const recalled = recall(path, options);
    this.content = recalled.content;
    this.whyUnknown = recalled.whyUnknown;
    this.#texts = new Map(
      Object.entries(recalled.content).map(([name, value]) => [name, JSON.stringify(value)]),
    );
  }

  /**
   * Replaces these sections in the background. Does not wait and never throws. An undefined value removes a section.
   */
  keep(sections: Readonly<Record<string, () => unknown>>): void {
    if (this.#path === "" || this.#options.isReadOnly === true) return;
    for (const [section, value] of Object.entries(sections)) this.#pending.set(section, value);
    if (this.#writing !== undefined) return;
    this.#writing = this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
    background(this.#writing, this.#options.log, this.#path);
  }

  /** Resolves when all sections passed to `keep` so far are in the file or could not be written. */
  async idle(): Promise<void> {
    await this.#writing;
  }

  async #writeAll(): Promise<void> {
    while (this.#pending.size > 0) {
      if (!this.#takePending() && this.#isFileCurrent) continue;
      try {
        await this.#replace();
        this.#isTrouble = false;
      } catch (error) {
        // Deleting works even on a full disk. Without the file, the next start does not mistake an outdated record
        // for the current one.
        await unlinkIfThere(this.#path).catch(() => undefined);
        this.#reportTrouble(error);
      }
      for (const path of this.#options.formerPaths ?? [])
        await unlinkIfThere(path).catch(() => undefined);
    }
  }

  /** Returns whether a section has changed. */
  #takePending(): boolean {
    const pending = [...this.#pending];
    this.#pending.clear();
    let isChanged = false;
    for (const [section, value] of pending) {
      const text = JSON.stringify(value()) as string | undefined;
      if (text === this.#texts.get(section)) continue;
      isChanged = true;
      if (text === undefined) this.#texts.delete(section);
      else this.#texts.set(section, text);
    }
    return isChanged;
  }

  /** Writes the file, or removes it if there are no sections. */
  async #replace(): Promise<void> {
    this.#isFileCurrent = false;
    if (this.#texts.size === 0) await unlinkIfThere(this.#path);
    else {
      const { bootId } = this.#options.bootClock;
      const head = { version: String(version), bootId: JSON.stringify(bootId) };
      const members = [...Object.entries(head), ...this.#texts].map(
        ([name, text]) => `${JSON.stringify(name)}:${text}`,
      );
      await replaceFile(this.#path, `{${members.join(",")}}`);
    }
    this.#isFileCurrent = true;
  }

  #reportTrouble(error: unknown): void {
    if (this.#isTrouble) return;
    this.#isTrouble = true;
    const { log, failureEvent } = this.#options;
    log.info(failureEvent, { path: this.#path, err: systemErrorText(error) });
  }
}

/** Opens the daemon's state file. */
export function openState(
  path: string,
  options: Pick<StateFileOptions, "log" | "bootClock" | "isReadOnly">,
): StateFile {
  return new StateFile(path, {
    ...options,
    effect:
      "drain deadlines start over, virtual servers that are not in an ipset are treated as foreign, and chains of an earlier mode may remain (kube-ipvs --cleanup removes them)",
    failureEvent:
      "Cannot save the state file; a restart resets drain deadlines and relies on the ipsets alone",
    formerPaths: formerPathsOf(path),
  });
}

/** Opens the daemon's state file read-only. */
export function readState(path: string, log: Logger = silentLogger): StateFile {
  return openState(path, { log, bootClock: systemBootClock(), isReadOnly: true });
}

/** All files that {@link openState} reads or removes. */
export function statePaths(path: string): readonly string[] {
  return path === "" ? [] : [path, ...formerPathsOf(path)];
}

/** kube-ipvs 0.2 used a separate file for each record, with the same sections as this one. */
function formerPathsOf(path: string): readonly string[] {
  if (path === "") return [];
  const names = ["drains.json", "drains-ownership.json", "drains-modes.json"];
  return names.map((name) => join(dirname(path), name)).filter((one) => one !== path);
}

/** The texts of a recorded list. */
export function textsIn(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}

/** The numbers of a recorded object, by name. */
export function numbersIn(value: unknown): ReadonlyMap<string, number> {
  const entries = Object.entries(isRecord(value) ? value : {});
  return new Map(entries.filter((entry): entry is [string, number] => Number.isFinite(entry[1])));
}

/** Removes the file, and the temporary file that a killed writer may have left. Returns whether the file existed. */
export async function removeStateFile(path: string): Promise<boolean> {
  await unlinkIfThere(temporaryOf(path));
  return unlinkIfThere(path);
}

interface Recalled {
  readonly content: Content;
  readonly whyUnknown: string | undefined;
}

function recall(path: string, options: StateFileOptions): Recalled {
  if (path === "") return unknown("no state file is configured");
  const recalled = readOne(path, options);
  if (recalled !== undefined) return recalled;
  const former = (options.formerPaths ?? []).flatMap((one) => readOne(one, options) ?? []);
  if (former.length === 0) return unknown(`${path} does not exist`);
  return {
    content: Object.assign({}, ...former.map(({ content }) => content)) as Content,
    whyUnknown: former.find(({ whyUnknown }) => whyUnknown !== undefined)?.whyUnknown,
  };
}

/** Undefined if the file does not exist. Logs a warning if it cannot be read. */
function readOne(
  path: string,
  { bootClock: { bootId }, log, effect }: StateFileOptions,
): Recalled | undefined {
  let value: unknown;
  try {
    value = parseJson(readBounded(path));
  } catch (error) {
    const code = systemErrorCode(error);
    if (code === "ENOENT") return undefined;
    const err = `${path}: ${systemErrorText(error)}`;
    // If a parent of the path is not a folder, the error is reported when the state file is written.
    if (code !== "ENOTDIR") log.warn("Cannot read the record of an earlier run", { err, effect });
    return unknown(err);
  }
  const { version: writtenBy, bootId: writtenIn, ...content } = isRecord(value) ? value : {};
  const isOurs = writtenBy === version && writtenIn === bootId && bootId !== "";
  if (isOurs) return { content, whyUnknown: undefined };
  return unknown(`${path} was written during an earlier boot or by a different version`);
}

function unknown(whyUnknown: string): Recalled {
  return { content: {}, whyUnknown };
}

async function unlinkIfThere(path: string): Promise<boolean> {
  try {
    await unlink(path);
    return true;
  } catch (error) {
    if (systemErrorCode(error) === "ENOENT") return false;
    throw error;
  }
}

function temporaryOf(path: string): string {
  return `${path}.new`;
}

/** Reads a regular file of limited size. Throws for other files, without blocking on a pipe or following a link. */
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

/** Replaces the file atomically: even if the program is killed, readers see the old file or the new one. */
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
