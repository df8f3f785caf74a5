/** Reads archives that `kube-ipvs sysdump` wrote. */
import { readFileSync } from "node:fs";
import type { SysdumpPart } from "../answer/sysdump.ts";
import { errorText } from "../base/error-text.ts";
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
