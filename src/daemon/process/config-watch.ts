/** Watches the configuration file. The watches of Node.js do not distinguish a write from a change of mode. */
import {
  closeSync,
  type FSWatcher,
  fstatSync,
  openSync,
  readFileSync,
  realpathSync,
  watch,
} from "node:fs";
import { dirname } from "node:path";
import { attempt } from "../../base/attempt.ts";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";

/** Editors and volumes make several changes in a row. */
const settleMs = 200;
/** How often the file is read without a notification: network file systems give none. */
const rereadMs = 30_000;

/** Throws where the file cannot be watched. */
function cannotWatch(path: string, error: unknown): Error {
  return new Error(`Cannot watch the configuration file ${path}: ${errorText(error)}`, {
    cause: error,
  });
}

/**
 * Calls back each time the file itself is written or renamed. As kube-proxy's watch, it stays with the file
 * that was there at the beginning: one that is deleted, or replaced by another under its name (an editor's
 * way of saving, and a ConfigMap volume's), is not noticed. Returns the stop.
 */
export function watchForWrites(
  path: string,
  onChange: (what: "written" | "renamed") => void,
): () => void {
  let descriptor: number;
  try {
    descriptor = openSync(path, "r");
  } catch (error) {
    throw cannotWatch(path, error);
  }
  // While it is open here, the end of its last name counts as a change of the file, not as its end.
  let seen = fstatSync(descriptor);
  let watcher: FSWatcher | undefined;
  let isOver = false;
  const stop = (): void => {
    if (isOver) return;
    isOver = true;
    watcher?.close();
    closeSync(descriptor);
  };
  const note = (kind: string): void => {
    if (isOver) return;
    const now = fstatSync(descriptor);
    const isWritten = now.mtimeMs !== seen.mtimeMs || now.size !== seen.size;
    if (!isWritten && kind !== "rename") return;
    seen = now;
    onChange(isWritten ? "written" : "renamed");
  };
  try {
    watcher = watch(path, { persistent: false }, note);
    watcher.on("error", stop);
  } catch (error) {
    stop();
    throw cannotWatch(path, error);
  }
  return stop;
}

export interface TextWatchParts {
  readonly clock: Clock;
  readonly log: Logger;
  /** Reports a text that differs from the one before. */
  readonly onText: () => void;
}

/**
 * Watches what stands under the file's name, whatever it is: also one that is put in its place, and the
 * links of a ConfigMap volume. Returns the stop.
 */
export function watchText(path: string, { clock, log, onText }: TextWatchParts): () => void {
  // What cannot be read is read again with the next change, and from time to time.
  const readText = () => attempt(() => readFileSync(path, "utf8"));
  let text = readText();
  let cancel: () => void = () => {};
  const look = (): void => {
    cancel = clock.after(rereadMs, look);
    const now = readText();
    // A file that is away for a moment is being replaced.
    if (now === undefined || now === text) return;
    text = now;
    onText();
  };
  const soon = (): void => {
    cancel();
    cancel = clock.after(settleMs, look);
  };
  const watchers = foldersOf(path).map((folder) => {
    const watcher = watch(folder, { persistent: false }, soon);
    watcher.on("error", (error) =>
      log.warn("Cannot watch directory", { directory: folder, err: error }),
    );
    return watcher;
  });
  cancel = clock.after(rereadMs, look);
  return () => {
    cancel();
    for (const watcher of watchers) watcher.close();
  };
}

/** Where the name stands, and where the file lies. */
function foldersOf(path: string): readonly string[] {
  try {
    return [...new Set([dirname(path), dirname(realpathSync(path))])];
  } catch (error) {
    throw cannotWatch(path, error);
  }
}
