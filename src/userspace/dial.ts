import { connect, type Socket } from "node:net";
import type { Clock } from "../base/clock.ts";
import type { Backend } from "./service-listeners.ts";

/** Connects to a backend. Rejects when that fails or takes longer than `timeoutMs`. */
export function dial(
  { address, port, key }: Backend,
  { clock, timeoutMs }: { readonly clock: Clock; readonly timeoutMs: number },
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port, allowHalfOpen: true, noDelay: true });
    const cancel = clock.after(timeoutMs, () => {
      socket.destroy(new Error(`Cannot connect to ${key}: no answer within ${timeoutMs} ms`));
    });
    const fail = (error: Error): void => {
      cancel();
      reject(error);
    };
    socket.once("error", fail);
    socket.once("connect", () => {
      cancel();
      socket.off("error", fail);
      resolve(socket);
    });
  });
}
