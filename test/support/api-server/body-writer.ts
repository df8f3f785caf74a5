import type { ServerResponse } from "node:http";
import type { Fault } from "./faults.ts";
import { resetSocket } from "./reset-socket.ts";

/** Writes a body as a fault requires: truncated, stalled or in slow pieces. Without a fault, writes it unchanged. */
export class BodyWriter {
  readonly #response: ServerResponse;
  readonly #fault: Fault | undefined;
  #sentBytes = 0;
  #isSpoilt = false;
  #queue: Promise<void> = Promise.resolve();

  constructor(response: ServerResponse, fault: Fault | undefined) {
    this.#response = response;
    this.#fault = fault;
    if (fault?.effect === "garbage") response.write(fault.text);
  }

  write(text: string): void {
    if (this.#isSpoilt || this.#response.destroyed) return;
    if (this.#fault?.effect === "slow") this.#writeSlowly(Buffer.from(text), this.#fault);
    else this.#writeUpToLimit(Buffer.from(text));
  }

  end(): void {
    this.#queue = this.#queue.then(() => {
      if (!this.#isSpoilt) this.#response.end();
    });
  }

  /** Sends nothing more and keeps the connection open, as if the server's host lost power. */
  stall(): void {
    this.#isSpoilt = true;
  }

  #writeUpToLimit(bytes: Buffer): void {
    const left = this.#limitBytes() - this.#sentBytes;
    const fitting = bytes.subarray(0, Math.max(0, left));
    this.#sentBytes += fitting.length;
    this.#response.write(fitting);
    if (bytes.length >= left) this.#spoil();
  }

  #limitBytes(): number {
    const fault = this.#fault;
    return fault !== undefined && "afterBytes" in fault ? (fault.afterBytes ?? 0) : Infinity;
  }

  #spoil(): void {
    this.#isSpoilt = true;
    if (this.#fault?.effect === "truncate") this.#response.end();
    if (this.#fault?.effect !== "cut") return;
    // The bytes must be sent before the connection is reset.
    setTimeout(() => {
      if (this.#response.socket !== null) resetSocket(this.#response.socket);
    }, 20);
  }

  #writeSlowly(
    bytes: Buffer,
    { chunkBytes, delayMs }: { readonly chunkBytes: number; readonly delayMs: number },
  ): void {
    for (let start = 0; start < bytes.length; start += chunkBytes) {
      const piece = bytes.subarray(start, start + chunkBytes);
      this.#queue = this.#queue.then(async () => {
        await new Promise((resolve) => setTimeout(resolve, delayMs));
        if (!this.#response.destroyed) this.#response.write(piece);
      });
    }
  }
}
