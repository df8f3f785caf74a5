/** Writes and reads the archive: text files in a tar file (POSIX ustar), compressed with gzip. Pure. */
import { gunzipSync, gzipSync } from "node:zlib";
import { apiVersion } from "../answer/answers.ts";
import type { Sysdump } from "../answer/sysdump.ts";
import { isRecord } from "../base/is-record.ts";
import { parseJson } from "../base/parse-json.ts";

/** An archive in memory. */
export interface SysdumpFiles {
  readonly index: Sysdump;
  /** The text of each part, by the part's name. */
  readonly parts: ReadonlyMap<string, string>;
}

const blockBytes = 512;
const folder = "kube-ipvs-sysdump/";
const indexName = "index.json";
/** Larger than any unpacked archive that `sysdump` writes. */
const maxUnpackedBytes = 512 * 1024 * 1024;

export function packed({ index, parts }: SysdumpFiles): Buffer {
  const seconds = Math.floor(Date.parse(index.time) / 1_000);
  const files = [[indexName, `${JSON.stringify(index, undefined, 2)}\n`] as const, ...parts];
  const blocks = files.flatMap(([name, text]) => {
    const body = Buffer.from(text);
    const padding = Buffer.alloc(-body.length & (blockBytes - 1));
    return [header(folder + name, body.length, seconds), body, padding];
  });
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(2 * blockBytes)]));
}

/** Unpacks an archive. Throws if it is incomplete or not in this version of the format. */
export function unpacked(bytes: Uint8Array, maxBytes: number = maxUnpackedBytes): SysdumpFiles {
  const parts = new Map(filesOf(decompressed(bytes, maxBytes)));
  const text = parts.get(indexName);
  parts.delete(indexName);
  if (text === undefined) throw new Error("kube-ipvs sysdump did not write it");
  const index = parseJson(text);
  if (!isRecord(index) || index["apiVersion"] !== apiVersion || index["kind"] !== "Sysdump") {
    const found = isRecord(index) ? `${index["kind"]} of ${index["apiVersion"]}` : "no index";
    throw new Error(`it has ${found}, but this program reads Sysdump of ${apiVersion}`);
  }
  if (!isIndex(index)) throw new Error("its index.json is damaged");
  return { index, parts };
}

function isIndex(index: Readonly<Record<string, unknown>>): index is Sysdump & typeof index {
  const { program, time, parts } = index;
  return (
    typeof program === "string" &&
    typeof time === "string" &&
    Array.isArray(parts) &&
    parts.every((part) => isRecord(part) && typeof part["name"] === "string")
  );
}

function decompressed(bytes: Uint8Array, maxOutputLength: number): Buffer {
  try {
    return gunzipSync(bytes, { maxOutputLength });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "Z_BUF_ERROR") throw new Error("it is truncated", { cause: error });
    if (code === "ERR_BUFFER_TOO_LARGE") throw new Error("it is too large", { cause: error });
    throw new Error("it is not a .tar.gz archive, or it is damaged", { cause: error });
  }
}

/** The offsets of the fields are those of struct ustar. */
function header(name: string, size: number, seconds: number): Buffer {
  const block = Buffer.alloc(blockBytes);
  const octal = (value: number, length: number): string =>
    value.toString(8).padStart(length - 1, "0");
  block.write(name, 0, 100);
  block.write(octal(0o600, 8), 100);
  block.write(octal(0, 8), 108);
  block.write(octal(0, 8), 116);
  block.write(octal(size, 12), 124);
  block.write(octal(seconds, 12), 136);
  block.write("        0", 148);
  block.write("ustar\0", 257);
  block.write("00", 263);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${octal(sum, 7)}\0 `, 148);
  return block;
}

function* filesOf(tar: Buffer): Generator<readonly [name: string, text: string]> {
  const truncated = "it is truncated, or it is not a tar file";
  for (let offset = 0; ; ) {
    const block = tar.subarray(offset, offset + blockBytes);
    if (block.length < blockBytes) throw new Error(truncated);
    if (block[0] === 0) return;
    const fieldOf = (start: number, length: number): string =>
      block.toString("utf8", start, start + length).replace(/\0.*$/s, "");
    const size = Number.parseInt(fieldOf(124, 12), 8);
    const end = offset + blockBytes + size;
    if (!(size >= 0 && end <= tar.length)) throw new Error(truncated);
    const name = fieldOf(0, 100);
    yield [
      name.startsWith(folder) ? name.slice(folder.length) : name,
      tar.toString("utf8", offset + blockBytes, end),
    ];
    offset = end + (-size & (blockBytes - 1));
  }
}
