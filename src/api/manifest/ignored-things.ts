import type { Logger } from "../../base/log.ts";
import { printableText } from "../refusals.ts";

/** Maximum number of names to remember and report, since a folder may contain anything. */
const maxNames = 100;

/** Logs each ignored subfolder and kind of object once, so that operators do not expect kube-ipvs to read it. */
export class IgnoredThings {
  readonly #log: Logger;
  readonly #known = new Set<string>();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** `name` is relative to the folder. Skips hidden names, which belong to the file system and to editors. */
  subfolder(name: string): void {
    if (name.startsWith(".") || !this.#isNew(`folder ${name}`)) return;
    this.#log.info("Ignoring subdirectory of the manifest directory", {
      name: printableText(name),
    });
  }

  /** `where` is the position of the first object of this kind. */
  kind(kind: string, where: string): undefined {
    if (this.#isNew(`kind ${kind}`))
      this.#log.info("Ignoring manifest objects of an unsupported kind", { kind, first: where });
  }

  #isNew(key: string): boolean {
    if (this.#known.has(key) || this.#known.size >= maxNames) return false;
    this.#known.add(key);
    return true;
  }
}
