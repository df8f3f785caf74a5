/** What a case is: it measures, and gives rows. */
import { ApiServer } from "../support/api-server/api-server.ts";
import type { ApiObject } from "../support/objects.ts";
import { Machine, type MachineOptions } from "./machine.ts";
import type { Growth, Row } from "./rows.ts";

export interface CaseContext {
  /** The step that runs now, for the progress line. */
  step(text: string): void;
  /** What is measured so far, in case that the case does not come to its end. */
  keep(rows: readonly Row[], growth?: readonly Growth[]): void;
  /** Another proxy's command with `{config}`; absent: none. */
  readonly peer?: string;
}

export interface CaseOutcome {
  readonly rows: readonly Row[];
  readonly growth?: readonly Growth[];
}

export interface Case {
  readonly name: string;
  readonly title: string;
  readonly expectedSeconds: number;
  run(context: CaseContext): Promise<CaseOutcome>;
}

/** A machine and an API server outside it, for the time of `body`. */
export async function withMachine<T>(
  { objects, ...options }: MachineOptions & { readonly objects: readonly ApiObject[] },
  body: (machine: Machine, server: ApiServer) => Promise<T>,
): Promise<T> {
  const machine = await Machine.boot(options);
  const server = await ApiServer.start({ objects, host: machine.outside });
  try {
    return await body(machine, server);
  } finally {
    await machine.powerOff();
    await server.stop();
  }
}

export function megabytes(kilobytes: number): number {
  return kilobytes / 1024;
}
