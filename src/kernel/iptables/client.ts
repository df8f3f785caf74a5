import type { IpFamily } from "../../base/ip.ts";
import type { Jump, Rule, TableName } from "../../state/rule.ts";
import type { Iptables, ObservedChain, RulesChange } from "../kernel.ts";
import { ProgramError, type ProgramResult, type RunProgram } from "../program.ts";
import { type BackendChoice, chooseBackend, type IptablesBackend } from "./backend.ts";
import { IptablesError, isIptablesBusy } from "./errors.ts";
import type { RuleGenerations } from "./generations.ts";
import { parseSaved } from "./parse.ts";
import { renderRule } from "./render.ts";
import { renderRestoreInput } from "./restore-input.ts";

/** How long iptables waits for the xtables lock. */
const lockWaitSeconds = 5;

/** A restore beside 50,000 rules of others takes seconds on a slow machine. */
const programTimeoutMs = 60_000;

/**
 * legacy reads a table from the kernel before anything else; nft asks the kernel nothing as long as there
 * is nothing to do, so it makes a chain and takes it away again, in one transaction.
 */
const probeInputs: Readonly<Record<IptablesBackend, string>> = {
  legacy: "*nat\nCOMMIT\n*filter\nCOMMIT\n",
  nft: ["nat", "filter"]
    .map((table) => `*${table}\n:KUBE-IPVS-PROBE - [0:0]\n-X KUBE-IPVS-PROBE\nCOMMIT\n`)
    .join(""),
};

export interface IptablesParts {
  readonly runProgram: RunProgram;
  readonly generations: Pick<RuleGenerations, "read">;
}

/** iptables through its programs: one process for an observation, one for an apply. */
export class IptablesClient implements Iptables {
  readonly #runProgram: RunProgram;
  readonly #generations: Pick<RuleGenerations, "read">;
  #choice: BackendChoice;

  /** `choice` as {@link chooseBackend} found it, `generations` of its back end. */
  constructor(collaborators: IptablesParts, choice: BackendChoice) {
    this.#runProgram = collaborators.runProgram;
    this.#generations = collaborators.generations;
    this.#choice = choice;
  }

  get backend(): IptablesBackend {
    return this.#choice.backend;
  }

  get choice(): BackendChoice {
    return this.#choice;
  }

  /**
   * Looks again which back end the node uses; rules may have come after us. A change of mind is reported,
   * not followed: our own rules stand in the back end of the start.
   */
  async checkBackend(): Promise<BackendChoice> {
    const found = await chooseBackend(this.#runProgram);
    if (found.backend === this.#choice.backend) this.#choice = found;
    return found;
  }

  /**
   * One save without a table name prints the tables that exist; one that nobody has used yet holds
   * nothing, and asking for it by name would create it.
   */
  async observe(family: IpFamily, names?: ReadonlySet<string>): Promise<readonly ObservedChain[]> {
    const { output } = await this.#run(family, { action: "read iptables rules", verb: "save" });
    return parseSaved(family, output, names);
  }

  readGeneration(family: IpFamily): Promise<number | undefined> {
    return this.#generations.read(family);
  }

  /**
   * Removing a jump that is gone fails a whole table, so on a failure the jumps are looked for, and what
   * is left to do is tried once more.
   */
  async apply(family: IpFamily, changes: readonly RulesChange[]): Promise<void> {
    if (changes.length === 0) return;
    try {
      await this.#restore(family, changes);
    } catch (error) {
      const rest = await this.#withoutGoneJumps(family, changes, error);
      if (rest === undefined) throw error;
      if (rest.length > 0) await this.#restore(family, rest);
    }
  }

  render(family: IpFamily, rule: Rule): string {
    return renderRule(family, rule);
  }

  /**
   * Restores what leaves no trace into both tables: fails where the kernel lacks them. A lock that somebody holds
   * says nothing against the family: giving it up would leave its rules as they are for good.
   */
  async probe(
    family: IpFamily,
  ): Promise<{ readonly isSupported: boolean; readonly reason?: string }> {
    try {
      const input = probeInputs[this.backend];
      await this.#run(family, { action: "use iptables", verb: "restore", input });
      return { isSupported: true };
    } catch (error) {
      if (isIptablesBusy(error)) return { isSupported: true };
      if (error instanceof IptablesError || error instanceof ProgramError) {
        return { isSupported: false, reason: error.message };
      }
      throw error;
    }
  }

  async #restore(family: IpFamily, changes: readonly RulesChange[]): Promise<void> {
    const input = renderRestoreInput(family, changes);
    await this.#run(family, { action: "write iptables rules", verb: "restore", input });
  }

  async #run(
    family: IpFamily,
    run: {
      readonly action: string;
      readonly verb: "save" | "restore";
      readonly input?: string;
    },
  ): Promise<ProgramResult> {
    const program = `${this.#choice.programs[family]}-${run.verb}`;
    const result = await this.#runProgram({
      program,
      // Saving takes no lock: the kernel hands out a table whole.
      arguments: run.verb === "save" ? [] : ["-w", String(lockWaitSeconds), "--noflush"],
      timeoutMs: programTimeoutMs,
      ...(run.input === undefined ? {} : { input: run.input }),
    });
    if (result.exitCode === 0) return result;
    throw new IptablesError({ ...run, family, program }, result);
  }

  /** What remains to be done after a failure that gone jumps explain; undefined when they do not. */
  async #withoutGoneJumps(
    family: IpFamily,
    changes: readonly RulesChange[],
    error: unknown,
  ): Promise<readonly RulesChange[] | undefined> {
    const removes = changes.some(({ kind }) => kind === "remove-jump");
    if (!removes || !(error instanceof IptablesError) || error.table === undefined) {
      return undefined;
    }
    const pending = changesFrom(error.table, changes);
    const rest = dropGoneJumps(pending, await this.observe(family), (rule) =>
      renderRule(family, rule),
    );
    return rest.length < pending.length ? rest : undefined;
  }
}

/** nat comes first: when filter failed, nat is done already. */
function changesFrom(
  failedTable: TableName,
  changes: readonly RulesChange[],
): readonly RulesChange[] {
  return failedTable === "nat" ? changes : changes.filter((change) => !isForNat(change));
}

function isForNat(change: RulesChange): boolean {
  if (change.kind === "write-chain") return change.chain.table === "nat";
  return (change.kind === "remove-chain" ? change.table : change.jump.table) === "nat";
}

/** Each observed copy of a jump can be removed once. */
function dropGoneJumps(
  changes: readonly RulesChange[],
  observed: readonly ObservedChain[],
  render: (rule: Rule) => string,
): readonly RulesChange[] {
  const textOf = (jump: Jump): string => `${jump.table} ${jump.from} ${render(jump.rule)}`;
  const copies = new Map<string, number>();
  for (const { table, name, rules } of observed) {
    for (const { text } of rules) {
      const key = `${table} ${name} ${text}`;
      copies.set(key, (copies.get(key) ?? 0) + 1);
    }
  }
  return changes.filter((change) => {
    if (change.kind !== "remove-jump") return true;
    const key = textOf(change.jump);
    const left = copies.get(key) ?? 0;
    copies.set(key, left - 1);
    return left > 0;
  });
}
