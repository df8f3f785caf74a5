/**
 * Copies text into a string of its own. A string cut or joined from others keeps those alive in V8; a
 * record that lives for months must not keep the response it came from.
 */
export function flatText(text: string): string {
  return Buffer.from(text, "utf8").toString("utf8");
}

/** Most texts a pool remembers; beyond, it starts again, so that names that come and go cannot fill it. */
const poolLimit = 20_000;

/** Gives one flat string for equal texts: node names and zones repeat on every endpoint. */
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
