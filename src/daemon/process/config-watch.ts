/** Watches the text of the configuration file. */
import { readFileSync, realpathSync, watch } from "node:fs";
import { dirname } from "node:path";
import { attempt } from "../../base/attempt.ts";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";

/** How long to wait after a notification, because editors and volumes make several changes in quick succession. */
const settleMs = 200;
/** How often the file is read even without a notification, because network file systems send none. */
const rereadMs = 30_000;

export interface TextWatchOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Called when the text has changed. */
  readonly onText: () => void;
}

/**
 * Watches the text at this path, even if the file is replaced or the path leads through the symlinks of a ConfigMap
 * volume. `text` is the last known text, which may already be outdated. Returns a function that stops watching. Throws
 * if the file cannot be watched.
 */
export function watchText(
  path: string,
  text: string,
  { clock, log, onText }: TextWatchOptions,
): () => void {
  let known = text;
  let cancelSoon: () => void = () => {};
  let cancelReread: () => void = () => {};
  const look = (): void => {
    // If the file cannot be read, the next change or periodic read tries again.
    const now = attempt(() => readFileSync(path, "utf8"));
    // A file that cannot be read is probably being replaced.
    if (now === undefined || now === known) return;
    known = now;
    onText();
  };
  const soon = (): void => {
    cancelSoon();
    cancelSoon = clock.after(settleMs, look);
  };
  // Notifications do not postpone the periodic reads, because other files in the folder may change all the time.
  const reread = (): void => {
    cancelReread = clock.after(rereadMs, reread);
    look();
  };
  const watchers = foldersOf(path).map((folder) => {
    const watcher = watch(folder, { persistent: false }, soon);
    watcher.on("error", (error) =>
      log.warn("Cannot watch directory", { directory: folder, err: error }),
    );
    return watcher;
  });
  soon();
  cancelReread = clock.after(rereadMs, reread);
  return () => {
    cancelSoon();
    cancelReread();
    for (const watcher of watchers) watcher.close();
  };
}

/** The folder of the path, and the folder of the file that the path resolves to. */
function foldersOf(path: string): readonly string[] {
  try {
    return [...new Set([dirname(path), dirname(realpathSync(path))])];
  } catch (error) {
    const message = `Cannot watch the configuration file ${path}: ${errorText(error)}`;
    throw new Error(message, { cause: error });
  }
}
