/**
 * Reads the parts of an archive one after the other, each with limits. If a part fails, the index has a note with the
 * reason.
 */
import type { Sysdump, SysdumpPart } from "../answer/sysdump.ts";
import type { Clock } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import type { SysdumpFiles } from "./archive.ts";
import { withoutSecrets } from "./redact.ts";

/** A part of the archive. */
export interface Part {
  /** The file name. The text of `*.json` is JSON. */
  readonly name: string;
  /** Rejects with the reason if there is nothing to show. */
  readonly read: () => Promise<string>;
}

export interface Limits {
  readonly partMs: number;
  /** Parts that have not begun after this time are skipped. */
  readonly totalMs: number;
  /** If a text is longer, its end is cut off. */
  readonly partBytes: number;
}

export const defaultLimits: Limits = {
  ...{ partMs: 15_000, totalMs: 90_000 },
  partBytes: 16 * 1024 * 1024,
};

/** Reads the parts. Never rejects. */
export async function collect(
  parts: readonly Part[],
  head: Omit<Sysdump, "parts">,
  clock: Clock,
  limits: Limits = defaultLimits,
): Promise<SysdumpFiles> {
  const texts = new Map<string, string>();
  const rows: SysdumpPart[] = [];
  const startMs = clock.monotonicMs();
  for (const { name, read } of parts) {
    const partStartMs = clock.monotonicMs();
    const rowOf = (bytes: number, note?: string): SysdumpPart => ({
      ...{ name, bytes, milliseconds: Math.round(clock.monotonicMs() - partStartMs) },
      ...(note === undefined ? {} : { note }),
    });
    if (partStartMs - startMs >= limits.totalMs) {
      rows.push(rowOf(0, `skipped because ${limits.totalMs / 1_000} s had passed`));
      continue;
    }
    try {
      const full = Buffer.from(withoutSecrets(await withinMs(read(), limits.partMs, clock)));
      const isWhole = full.length <= limits.partBytes;
      const text = full.toString("utf8", 0, isWhole ? full.length : lastLineEnd(full, limits));
      texts.set(name, text);
      const bytes = Buffer.byteLength(text);
      rows.push(rowOf(bytes, isWhole ? undefined : `the first ${bytes} of ${full.length} bytes`));
    } catch (error) {
      rows.push(rowOf(0, withoutSecrets(errorText(error))));
    }
  }
  return { index: { ...head, parts: rows }, parts: texts };
}

function lastLineEnd(text: Buffer, { partBytes }: Limits): number {
  return text.lastIndexOf("\n", partBytes - 1) + 1 || partBytes;
}

function withinMs<T>(result: Promise<T>, limitMs: number, clock: Clock): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(limitMs, () =>
      reject(new Error(`not complete within ${limitMs / 1_000} s`)),
    );
    void result.then(resolve, reject).finally(cancel);
  });
}
