import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Saved inputs for one target: the files in `corpus/NAME/`. Empty if there is no such folder. */
export function readCorpus(name: string): readonly Uint8Array<ArrayBuffer>[] {
  const folder = join(import.meta.dirname, "corpus", name);
  try {
    const files = readdirSync(folder).toSorted();
    return files.map((file) => new Uint8Array(readFileSync(join(folder, file))));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

/** Like {@link readCorpus}, as text. */
export function readCorpusTexts(name: string): readonly string[] {
  return readCorpus(name).map((bytes) => new TextDecoder().decode(bytes));
}
