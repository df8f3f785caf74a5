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
 * volume. Returns a function that stops watching. Throws if the file cannot be watched.
 */
export function watchText(path: string, { clock, log, onText }: TextWatchOptions): () => void {
  // If the file cannot be read, the next change or periodic read tries again.
  const readText = () => attempt(() => readFileSync(path, "utf8"));
  let text = readText();
  let cancel: () => void = () => {};
  const look = (): void => {
    cancel = clock.after(rereadMs, look);
    const now = readText();
    // A file that cannot be read is probably being replaced.
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

/** The folder of the path, and the folder of the file that the path resolves to. */
function foldersOf(path: string): readonly string[] {
  try {
    return [...new Set([dirname(path), dirname(realpathSync(path))])];
  } catch (error) {
    const message = `Cannot watch the configuration file ${path}: ${errorText(error)}`;
    throw new Error(message, { cause: error });
  }
}
