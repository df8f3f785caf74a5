/** `kube-ipvs top`. Changes nothing. */
import { openReaders } from "../kernel/open-readers.ts";
import type { TopOptions, TopParts } from "./options.ts";
import { runBatch } from "./run-batch.ts";
import { runLive } from "./run-live.ts";
import { openTerminal } from "./terminal.ts";

/** Resolves with the exit code. */
export async function runTop(parts: TopParts, options: TopOptions): Promise<number> {
  const { clock } = parts;
  const kernel = openReaders(clock, process.env);
  try {
    if (options.isBatch || options.format === "json" || !isFullTerminal()) {
      await runBatch({ ...parts, kernel }, options);
      return 0;
    }
    const terminal = openTerminal();
    try {
      return await runLive({ clock, kernel, terminal, readNames: parts.readNames }, options);
    } finally {
      terminal.close();
    }
  } finally {
    kernel.close();
  }
}

/** Keys can be read one by one, and the cursor be moved. */
function isFullTerminal(): boolean {
  const { TERM = "" } = process.env;
  const isAble = TERM !== "" && TERM !== "dumb";
  return isAble && process.stdin.isTTY === true && process.stdout.isTTY === true;
}
