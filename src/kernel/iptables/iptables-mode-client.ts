import type { IpFamily } from "../../base/ip.ts";
import type { IptablesModeRules } from "../kernel.ts";
import type { RunProgram } from "../program.ts";
import type { BackendChoice } from "./backend.ts";
import { IptablesError } from "./errors.ts";
import { planLeftoverRemoval } from "./iptables-mode.ts";

/** Beside the rules of ten thousand Services a restore takes seconds. */
const programTimeoutMs = 60_000;
const lockWaitSeconds = 5;

/** Removes the rules of kube-proxy's mode iptables from one backend: one process to read, one to write. */
export class IptablesModeClient implements IptablesModeRules {
  readonly #runProgram: RunProgram;
  readonly #choice: BackendChoice;

  /** `choice` as the check of the backends found it. */
  constructor(collaborators: { readonly runProgram: RunProgram }, choice: BackendChoice) {
    this.#runProgram = collaborators.runProgram;
    this.#choice = choice;
  }

  get backend(): BackendChoice["backend"] {
    return this.#choice.backend;
  }

  get found(): ReadonlyMap<IpFamily, readonly string[]> {
    return this.#choice.leftovers ?? new Map();
  }

  async remove(
    family: IpFamily,
    emptied: ReadonlySet<string>,
  ): Promise<{ readonly removedCount: number; readonly kept: readonly string[] }> {
    const saved = await this.#run(family, "save", "read iptables rules", []);
    const { input, ...removal } = planLeftoverRemoval(saved, emptied);
    if (input !== "") {
      const options = ["-w", String(lockWaitSeconds), "--noflush"];
      await this.#run(family, "restore", "remove rules of mode iptables", options, input);
    }
    return removal;
  }

  async #run(
    family: IpFamily,
    verb: "save" | "restore",
    action: string,
    options: readonly string[],
    input?: string,
  ): Promise<string> {
    const program = `${this.#choice.programs[family]}-${verb}`;
    const result = await this.#runProgram({
      program,
      arguments: options,
      timeoutMs: programTimeoutMs,
      ...(input === undefined ? {} : { input }),
    });
    if (result.exitCode === 0) return result.output;
    const context = { action, family, program, ...(input === undefined ? {} : { input }) };
    throw new IptablesError(context, result);
  }
}
