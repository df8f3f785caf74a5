/** The type of a case, which measures and returns rows. */
import { ApiServer } from "../support/api-server/api-server.ts";
import type { ApiObject } from "../support/objects.ts";
import { Machine, type MachineOptions } from "./machine.ts";
import type { Growth, Row } from "./rows.ts";

export interface CaseContext {
  /** Shows the current step in the progress line. */
  step(text: string): void;
  /** Stores the results so far, in case the case does not finish. */
  keep(rows: readonly Row[], growth?: readonly Growth[]): void;
  /** The command of the other proxy, with `{config}`, if one is measured. */
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

/** Runs `body` with a machine and an API server outside it. */
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
