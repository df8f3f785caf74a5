/**
 * Copies text into an independent string. In V8, substrings and concatenations keep their source strings alive.
 * Records live for months and must not keep response bodies in memory.
 */
export function flatText(text: string): string {
  return Buffer.from(text, "utf8").toString("utf8");
}

/** Maximum number of texts in a pool. A full pool is cleared so that short-lived names cannot fill it. */
const poolLimit = 20_000;

/** Returns the same flat string for equal texts, because node names and zones repeat on every endpoint. */
export class TextPool {
  readonly #texts = new Map<string, string>();

  intern(text: string): string {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    if (this.#texts.size >= poolLimit) this.#texts.clear();
    const flat = flatText(text);
    this.#texts.set(flat, flat);
    return flat;
  }
}
