/**
 * One end of connections: a thread that has entered a namespace, and listens and connects there. A thread starts much
 * faster than a process, which is important in the lab kernel.
 */
import { Worker } from "node:worker_threads";
import type { Listener, Outcome, Probe, Reply, Request } from "./probe.ts";

interface Pending {
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: Error) => void;
}

export class Station {
  readonly name: string;
  readonly #worker: Worker;
  readonly #pending = new Map<number, Pending>();
  #calls = 0;

  /** `name` is the namespace's name. This place also answers with it. */
  constructor(name: string) {
    this.name = name;
    this.#worker = new Worker(new URL("./station-thread.ts", import.meta.url), {
      workerData: name,
    });
    this.#worker.on("message", (reply: Reply) => this.#settle(reply));
    this.#worker.on("error", (error) => {
      for (const { reject } of this.#pending.values()) reject(error as Error);
      this.#pending.clear();
    });
  }

  /** Resolves when all listeners are open. */
  async listen(listeners: readonly Listener[]): Promise<void> {
    await this.#call({ kind: "listen", listeners });
  }

  async probe(probe: Probe): Promise<Outcome> {
    const { outcome } = await this.#call({ kind: "probe", probe });
    if (outcome === undefined) throw new Error(`No outcome from ${this.name}`);
    return outcome;
  }

  async stop(): Promise<void> {
    await this.#worker.terminate();
  }

  async #call(request: Request): Promise<Reply> {
    const id = this.#calls++;
    const { promise, resolve, reject } = Promise.withResolvers<Reply>();
    this.#pending.set(id, { resolve, reject });
    this.#worker.postMessage({ id, request });
    const reply = await promise;
    if (reply.error !== undefined) throw new Error(`${this.name}: ${reply.error}`);
    return reply;
  }

  #settle(reply: Reply): void {
    this.#pending.get(reply.id)?.resolve(reply);
    this.#pending.delete(reply.id);
  }
}
