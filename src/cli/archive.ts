/** Reads archives that `kube-ipvs sysdump` wrote. */
import { readFileSync } from "node:fs";
import type { Sysdump, SysdumpPart } from "../answer/sysdump.ts";
import { errorText } from "../base/error-text.ts";
import { version } from "../base/version.ts";
import type { SysdumpFiles } from "../sysdump/archive.ts";

export async function readArchive(path: string): Promise<SysdumpFiles> {
  const { unpacked } = await import("../sysdump/archive.ts");
  try {
    return unpacked(readFileSync(path));
  } catch (error) {
    throw new Error(`Cannot read ${path}: ${errorText(error)}`, { cause: error });
  }
}

/** Finds a part by name. Throws if the archive does not contain it. */
export function partOf(
  { index, parts }: SysdumpFiles,
  path: string,
  wanted: string,
): { readonly row: SysdumpPart; readonly text: string } {
  const row = index.parts.find(({ name }) => [name, name.replace(/\.\w+$/, "")].includes(wanted));
  const text = parts.get(row?.name ?? "");
  if (row !== undefined && text !== undefined) return { row, text };
  const names = [...parts.keys()].join(", ");
  throw new Error(`${path} has no ${wanted} (${row?.note ?? `it has ${names}`})`);
}

/** The error for a part that this program cannot read: it is damaged, or a different version wrote it. */
export function unreadablePart(
  path: string,
  { program }: Sysdump,
  name: string,
  cause: unknown,
): Error {
  const reason =
    program === version
      ? "It is damaged: write a new archive with kube-ipvs sysdump"
      : `It is damaged, or its format differs, because kube-ipvs ${program} wrote it: use kube-ipvs ${program} instead of ${version}, or unpack the archive with tar -xzf`;
  return new Error(`Cannot read ${name} in ${path} (${errorText(cause)}). ${reason}`, { cause });
}
