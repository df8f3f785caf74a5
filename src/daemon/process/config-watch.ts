/** Watches the text of the configuration file. */
import { readFileSync, realpathSync, watch } from "node:fs";
import { dirname } from "node:path";
import { attempt } from "../../base/attempt.ts";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";

/** Editors and volumes make several changes in a row. */
const settleMs = 200;
/** How often the file is read without a notification: network file systems give none. */
const rereadMs = 30_000;

export interface TextWatchOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Reports a text that differs from the one before. */
  readonly onText: () => void;
}

/**
 * Watches what stands under the file's name, whatever it is: also one that is put in its place, and the
 * links of a ConfigMap volume. Returns the stop. Throws if the file cannot be watched.
 */
export function watchText(path: string, { clock, log, onText }: TextWatchOptions): () => void {
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
    const message = `Cannot watch the configuration file ${path}: ${errorText(error)}`;
    throw new Error(message, { cause: error });
  }
}
