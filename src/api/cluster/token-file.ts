import { readFile } from "node:fs/promises";
import type { Clock } from "../../base/clock.ts";
import { systemErrorText } from "../../base/system-error-text.ts";
import { ApiError } from "../api-error.ts";

/** Tokens in pods are replaced every hour or so; upstream reads them about once a minute too. */
const freshMs = 60_000;

/** A bearer token in a file that another program replaces from time to time. */
export class TokenFile {
  readonly #clock: Clock;
  readonly #path: string;
  #token = "";
  #readAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, path: string) {
    this.#clock = clock;
    this.#path = path;
  }

  /** The newest token; the last one where the file cannot be read for a moment. */
  async token(): Promise<string> {
    if (this.#clock.monotonicMs() - this.#readAtMs < freshMs) return this.#token;
    try {
      this.#token = (await readFile(this.#path, "utf8")).trim();
      this.#readAtMs = this.#clock.monotonicMs();
    } catch (cause) {
      if (this.#token !== "") return this.#token;
      const advice = "check the kubeconfig or the service account that names it";
      const message = `Cannot read token file ${this.#path}: ${systemErrorText(cause)}; ${advice}`;
      throw new ApiError(message, { reason: "no-credentials", cause });
    }
    return this.#token;
  }

  /** The server did not take the token: read the file again before the next request. */
  drop(): void {
    this.#readAtMs = Number.NEGATIVE_INFINITY;
  }
}
