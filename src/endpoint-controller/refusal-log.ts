import type { Refusal } from "../api/source.ts";
import type { Logger } from "../base/log.ts";

/** Objects may be many and wrong for long: so many fields are remembered, and no more named. */
const maxFields = 1_000;

/** Names once each invalid field that is ignored. */
export class RefusalLog {
  readonly #log: Logger;
  readonly #named = new Set<string>();

  constructor(log: Logger) {
    this.#log = log;
  }

  note({ kind, subject, field, reason, message }: Refusal): void {
    const key = `${kind} ${subject} ${field} ${reason}`;
    if (this.#named.has(key) || this.#named.size >= maxFields) return;
    this.#named.add(key);
    this.#log.warn("Ignoring invalid field", {
      kind,
      object: subject,
      field,
      reason,
      err: message,
    });
  }
}
