/** Implements `kube-ipvs sysdump`, which only reads and loads no modules. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { apiVersion } from "../answer/answers.ts";
import type { Sysdump } from "../answer/sysdump.ts";
import type { Clock } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import { parseJson } from "../base/parse-json.ts";
import { version } from "../base/version.ts";
import type { Config } from "../config/config.ts";
import { packed, type SysdumpFiles } from "./archive.ts";
import { collect, type Part } from "./collect.ts";
import { namesIn, namesInComments, namesInUrls } from "./names.ts";
import { nodeParts } from "./node-parts.ts";
import { Redactor } from "./redact.ts";

export interface SysdumpOptions {
  readonly isRedacted: boolean;
  /** Finds the daemon's process. */
  readonly daemonPid: () => Promise<number | undefined>;
}

/** `answers` are the parts that commands print. */
export async function sysdump(
  answers: readonly Part[],
  config: Pick<Config, "metricsBindAddress" | "nodeName">,
  clock: Clock,
  { isRedacted, daemonPid }: SysdumpOptions,
): Promise<{ readonly index: Sysdump; readonly archive: Buffer }> {
  const parts = [...answers, ...nodeParts(config, clock, daemonPid)];
  const time = new Date(clock.nowMs()).toISOString();
  const head = { apiVersion, kind: "Sysdump", program: version, time, isRedacted } as const;
  const names = new Set([hostname(), config.nodeName]);
  const read = isRedacted ? parts.map((part) => redactable(part, names)) : parts;
  const files = await collect(read, head, clock);
  const written = isRedacted ? redacted(files, names) : files;
  return { index: written.index, archive: packed(written) };
}

/** Parts that cannot be redacted. */
const unredacted: Readonly<Record<string, string>> = {
  "log.txt": "it may contain names that cannot be recognized",
  "node-state.json": "it contains addresses in binary form",
};

/** Adds the names that a part contains to `names`, before the part may be cut off. Exported for tests. */
export function redactable(part: Part, names: Set<string>): Part {
  const reason = unredacted[part.name];
  const read = async (): Promise<string> => {
    if (reason !== undefined) throw new Error(`omitted because ${reason}`);
    const text = await part.read().catch((error: unknown) => {
      for (const name of namesInUrls(errorText(error))) names.add(name);
      throw error;
    });
    const found = part.name.endsWith(".json") ? namesIn(parseJson(text)) : [];
    for (const name of [...found, ...namesInComments(text), ...namesInUrls(text)]) names.add(name);
    return text;
  };
  return { ...part, read };
}

/** Redacts the parts and the index. Exported for tests. */
export function redacted({ index, parts }: SysdumpFiles, names: ReadonlySet<string>): SysdumpFiles {
  const isWhole = (name: string): boolean =>
    index.parts.every((one) => one.name !== name || one.note === undefined);
  const redactor = new Redactor(randomBytes(32), names);
  const texts = [...parts].map(([name, text]) => {
    const isJson = name.endsWith(".json") && isWhole(name);
    return [name, isJson ? redactor.json(text) : redactor.text(text)] as const;
  });
  const sizes = new Map(texts.map(([name, text]) => [name, Buffer.byteLength(text)]));
  const rows = index.parts.map(({ note, ...row }) => ({
    ...{ ...row, bytes: sizes.get(row.name) ?? 0 },
    ...(note === undefined ? {} : { note: redactor.text(note) }),
  }));
  return { index: { ...index, parts: rows }, parts: new Map(texts) };
}
