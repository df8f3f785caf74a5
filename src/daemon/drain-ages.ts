/**
 * The file that lets a drain keep its age across a restart. It is a convenience: what drains is read from
 * the kernel, and without the file a deadline counts from the restart.
 *
 * Times in it are the machine's: milliseconds since boot with the boot's id (/proc/uptime,
 * random/boot_id). The wall clock may jump; this one does not, and after a boot nothing drains any more.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { mkdir, open, rename, unlink } from "node:fs/promises";
import { uptime } from "node:os";
import { dirname } from "node:path";
import { background } from "../base/background.ts";
import type { Clock } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import type { Logger } from "../base/log.ts";
import { parseJson } from "../base/parse-json.ts";
import { type Drain, type DrainAges, drainKey } from "../reconcile/drains.ts";

/** Time since the machine was started. */
export interface BootClock {
  /** Differs from boot to boot. */
  readonly bootId: string;
  /** Milliseconds, suspended time included. */
  uptimeMs(): number;
}

/** The machine's own. Without a boot id (no /proc) nothing is ever recalled. */
export function systemBootClock(): BootClock {
  return { bootId: readBootId(), uptimeMs: () => uptime() * 1000 };
}

export interface DrainAgesParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly bootClock: BootClock;
}

/** The oldest are noted; the others count from a restart. */
const maxDrains = 10_000;
/** Keys are at most about 110 characters. */
const maxBytes = 2 ** 21;
const version = 1;

/** Begun times by drain key, in milliseconds since boot; or why there are none. */
type Notes =
  | { readonly kind: "read"; readonly beganMs: ReadonlyMap<string, number> }
  | { readonly kind: "unknown"; readonly reason: string };

/**
 * The ages of drains in a file that is replaced as a whole. A file that is missing, foreign or broken
 * means that nothing is known; a folder that cannot be written is told once and is no error.
 */
export class DrainAgesFile implements DrainAges {
  readonly #path: string;
  readonly #parts: DrainAgesParts;
  readonly #notes: Notes;
  /** The newest state that is not written yet. */
  #unwritten: readonly Drain[] | undefined;
  #writing: Promise<void> | undefined;
  #mayExist: boolean;
  #isTrouble = false;

  /** Reads the file. `path` empty: there is none. */
  constructor(path: string, parts: DrainAgesParts) {
    this.#path = path;
    this.#parts = parts;
    this.#notes = path === "" ? unknown("no file is configured") : readNotes(path, parts.bootClock);
    this.#mayExist = path !== "";
  }

  get ignorance(): string | undefined {
    return this.#notes.kind === "unknown" ? this.#notes.reason : undefined;
  }

  recall(key: string): number | undefined {
    if (this.#notes.kind === "unknown") return undefined;
    const beganMs = this.#notes.beganMs.get(key);
    return beganMs === undefined ? undefined : beganMs - this.#bootOffsetMs();
  }

  keep(drains: Iterable<Drain>): void {
    if (this.#path === "") return;
    this.#unwritten = [...drains];
    if (this.#writing !== undefined) return;
    this.#writing = this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
    background(this.#writing, this.#parts.log, "ages of drains");
  }

  /** Resolves when everything given so far is in the file, or could not be written. */
  async idle(): Promise<void> {
    await this.#writing;
  }

  async #writeAll(): Promise<void> {
    for (let drains = this.#takeUnwritten(); drains !== undefined; drains = this.#takeUnwritten()) {
      try {
        await this.#write(drains);
        this.#isTrouble = false;
      } catch (error) {
        this.#tellTrouble(error);
      }
    }
  }

  #takeUnwritten(): readonly Drain[] | undefined {
    const drains = this.#unwritten;
    this.#unwritten = undefined;
    return drains;
  }

  /** No drain, no file. */
  async #write(drains: readonly Drain[]): Promise<void> {
    if (drains.length === 0) {
      if (this.#mayExist) await unlinkIfThere(this.#path);
      this.#mayExist = false;
      return;
    }
    this.#mayExist = true;
    await replaceFile(this.#path, this.#render(drains));
  }

  #render(drains: readonly Drain[]): string {
    const oldest = drains.toSorted((one, other) => one.sinceMs - other.sinceMs).slice(0, maxDrains);
    const offsetMs = this.#bootOffsetMs();
    const beganMs = Object.fromEntries(
      oldest.map((drain) => [drainKey(drain), Math.round(drain.sinceMs + offsetMs)]),
    );
    return JSON.stringify({ version, bootId: this.#parts.bootClock.bootId, beganMs });
  }

  /** What makes a monotonic time of this program a time since boot. */
  #bootOffsetMs(): number {
    return this.#parts.bootClock.uptimeMs() - this.#parts.clock.monotonicMs();
  }

  #tellTrouble(error: unknown): void {
    if (this.#isTrouble) return;
    this.#isTrouble = true;
    this.#parts.log.info("Ages of drains cannot be kept; a restart counts them anew", {
      path: this.#path,
      reason: errorText(error),
    });
  }
}

/** Removes the file, and what a writer that was killed left beside it; says whether there was one. */
export async function removeDrainAges(path: string): Promise<boolean> {
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

function unknown(reason: string): Notes {
  return { kind: "unknown", reason };
}

function readBootId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return "";
  }
}

function readNotes(path: string, bootClock: BootClock): Notes {
  let content: unknown;
  try {
    content = parseJson(readBounded(path));
  } catch (error) {
    return unknown(isMissing(error) ? `there is no ${path}` : `${path}: ${errorText(error)}`);
  }
  return notesFrom(content, bootClock) ?? unknown(`${path} is of another boot or version`);
}

/** A begin that lies in the future or is no number is left out. */
function notesFrom(content: unknown, { bootId, uptimeMs }: BootClock): Notes | undefined {
  if (!isRecord(content) || !isRecord(content["beganMs"])) return undefined;
  if (content["version"] !== version || bootId === "" || content["bootId"] !== bootId) {
    return undefined;
  }
  const nowMs = uptimeMs();
  const beganMs = new Map<string, number>();
  for (const [key, value] of Object.entries(content["beganMs"])) {
    if (typeof value === "number" && value >= 0 && value <= nowMs) beganMs.set(key, value);
  }
  return { kind: "read", beganMs };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === "ENOENT";
}

/** Only a plain file of a bearable size: neither a pipe that waits nor a link to somewhere else. */
function readBounded(path: string): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const status = fstatSync(file);
    if (!status.isFile()) throw new Error("not a plain file");
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
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.writeFile(text);
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await unlinkIfThere(temporary).catch(() => undefined);
    throw error;
  }
}
