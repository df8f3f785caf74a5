import type { Logger } from "../../base/log.ts";
import { printableText } from "../refusals.ts";

/** A folder may hold anything: so many names are remembered, and no more reported. */
const maxNames = 100;

/** Says once what of a folder is not read: an operator must not wait for it. */
export class IgnoredThings {
  readonly #log: Logger;
  readonly #known = new Set<string>();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** `name` inside the folder; names with a dot in front are the file system's and editors' own. */
  subfolder(name: string): void {
    if (name.startsWith(".") || !this.#isNew(`folder ${name}`)) return;
    this.#log.info("Ignoring subdirectory of the manifest directory", {
      name: printableText(name),
    });
  }

  /** `where`: the first object of this kind. */
  kind(kind: string, where: string): undefined {
    if (this.#isNew(`kind ${kind}`))
      this.#log.info("Ignoring objects of this kind in manifests", { kind, first: where });
  }

  #isNew(key: string): boolean {
    if (this.#known.has(key) || this.#known.size >= maxNames) return false;
    this.#known.add(key);
    return true;
  }
}
