import type { IpFamily } from "../../base/ip.ts";
import { type Logger, silentLogger } from "../../base/log.ts";
import type { Rule, RuleSet, TableName } from "../../state/rule.ts";
import type { Iptables, ObservedChain, RuleChange, RulesScope } from "../kernel.ts";
import {
  type ProgramCall,
  ProgramError,
  type ProgramResult,
  type RunProgram,
  readLines,
} from "../program.ts";
import { type BackendChoice, chooseBackend, type IptablesBackend } from "./backend.ts";
import { IptablesError, isIptablesBusy } from "./errors.ts";
import type { RuleGenerations } from "./generations.ts";
import { changesFrom, dropGoneJumps, targetsOf } from "./gone-jumps.ts";
import { parseSaved, SavedReader, UnreadableTableError } from "./parse.ts";
import { parseRule } from "./parse-rule.ts";
import { readByChain, UnexpectedAnswer } from "./read-by-chain.ts";
import { renderRule } from "./render.ts";
import { renderRestoreInput } from "./restore-input.ts";
import { RulesAhead } from "./rules-ahead.ts";

/** How long iptables waits for the xtables lock. */
const lockWaitSeconds = 5;

/** A restore beside 50,000 rules of others takes seconds on a slow machine. */
const programTimeoutMs = 60_000;
/** 5,000 Services with five endpoints each are 9 MB in iptables mode: nft takes ten seconds of a fast processor for them. */
const timeoutMsPerKilobyte = 50;

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
  /** Undefined if rule changes are not watched. */
  readonly generations?: Pick<RuleGenerations, "read">;
  /** If undefined, chains that cannot be read are not reported. */
  readonly log?: Logger;
}

interface IptablesCall {
  readonly verb: "save" | "restore";
  readonly input?: string;
}

interface IptablesRun extends IptablesCall {
  /** "read rules": completes the sentence "Cannot …". */
  readonly action: string;
}

/** iptables through its programs: one process for an observation, one for an apply. */
export class IptablesClient implements Iptables {
  readonly #runProgram: RunProgram;
  readonly #generations: Pick<RuleGenerations, "read"> | undefined;
  readonly #log: Logger;
  #choice: BackendChoice;
  /** Families whose chains were read before: they are there, and reading them one by one is cheaper. */
  readonly #familiar = new Set<IpFamily>();
  readonly #ahead = new RulesAhead({
    readGeneration: (family) => this.readGeneration(family),
    print: (family) => this.#print(family),
  });
  /** Named in the log, as `IPv4 nat POSTROUTING`, until they can be read again. */
  #unreadable: ReadonlySet<string> = new Set();

  /** `choice` as {@link chooseBackend} found it, `generations` of its backend. */
  constructor(collaborators: IptablesParts, choice: BackendChoice) {
    this.#runProgram = collaborators.runProgram;
    this.#generations = collaborators.generations;
    this.#log = collaborators.log ?? silentLogger;
    this.#choice = choice;
  }

  get backend(): IptablesBackend {
    return this.#choice.backend;
  }

  get choice(): BackendChoice {
    return this.#choice;
  }

  /** Checks again which backend the node uses. This client keeps the backend of the start. */
  async checkBackend(): Promise<BackendChoice> {
    const found = await chooseBackend(this.#runProgram);
    if (found.backend === this.#choice.backend) this.#choice = found;
    return found;
  }

  /**
   * Legacy hands out whole tables, so one save reads them all. nft reads single chains: that costs nothing for the
   * rules of others, and goes on where one of them cannot be printed.
   */
  async observe(family: IpFamily, scope: RulesScope = {}): Promise<readonly ObservedChain[]> {
    const { planned, hasOthers = planned === undefined } = scope;
    const tables = scope.hasAllTables === true ? allTables : tablesOf(planned);
    const readsByChain = planned !== undefined && this.backend === "nft";
    if (readsByChain && !hasOthers && this.#familiar.has(family)) {
      const chains = await this.#readByChain(family, planned);
      if (chains !== undefined) return chains;
    }
    try {
      const chains = await this.#save(family, hasOthers ? undefined : namesOf(planned), tables);
      this.#familiar.add(family);
      return chains;
    } catch (error) {
      if (!readsByChain || !(error instanceof UnreadableTableError)) throw error;
      const chains = await this.#readByChain(family, planned);
      if (chains === undefined) throw error;
      this.#familiar.add(family);
      return chains;
    }
  }

  readAhead(family: IpFamily): void {
    this.#ahead.read(family);
  }

  async readGeneration(family: IpFamily): Promise<number | undefined> {
    return this.#generations?.read(family);
  }

  /**
   * Removing a jump that is gone fails a whole table, so on a failure the jumps are looked for, and what
   * is left to do is tried once more. In a chain that cannot be read, the failure does not show its place: there the
   * jumps are looked for first.
   */
  async apply(family: IpFamily, wanted: readonly RuleChange[]): Promise<void> {
    const changes = this.#hasUnreadable(family, wanted)
      ? await this.#dropGoneJumps(family, wanted)
      : wanted;
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

  parse(text: string): Rule | undefined {
    return parseRule(text);
  }

  /**
   * Restores what leaves no trace into both tables: fails where the kernel lacks them. A lock that someone holds
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

  /**
   * One save without a table name prints the tables that exist; one that nobody has used yet holds
   * nothing, and asking for it by name would create it.
   */
  async #save(
    family: IpFamily,
    names: ReadonlySet<string> | undefined,
    tables: ReadonlySet<TableName>,
  ): Promise<readonly ObservedChain[]> {
    const output = await this.#ahead.take(family);
    if (output !== undefined) return parseSaved(output, names, tables);
    const reader = new SavedReader(names, tables);
    await this.#readSaved(family, (line) => reader.read(line));
    return reader.finish();
  }

  /** What all rules of a family are together, any program's, may be longer than a text can be. */
  async #readSaved(family: IpFamily, onLine: (line: string) => void): Promise<void> {
    const run = { action: "read iptables rules", verb: "save" } as const;
    const result = await readLines(this.#runProgram, this.#callOf(family, run), onLine);
    this.#check(family, run, result);
  }

  async #print(family: IpFamily): Promise<string> {
    return (await this.#run(family, { action: "read iptables rules", verb: "save" })).output;
  }

  /** Undefined if this version of the program answers otherwise than those we know, or its answer is too long to keep. */
  async #readByChain(
    family: IpFamily,
    planned: RuleSet,
  ): Promise<readonly ObservedChain[] | undefined> {
    const restore = (input: string): Promise<ProgramResult> =>
      this.#start(family, { verb: "restore", input });
    try {
      const { chains, unreadable } = await readByChain(family, planned, restore);
      this.#reportUnreadable(family, unreadable);
      return chains;
    } catch (error) {
      if (error instanceof UnexpectedAnswer) return undefined;
      if (error instanceof ProgramError && error.failure === "output-too-long") return undefined;
      throw error;
    }
  }

  #reportUnreadable(family: IpFamily, chains: readonly string[]): void {
    const ofOtherFamily = [...this.#unreadable].filter((name) => !name.startsWith(family));
    const now = chains.map((chain) => `${family} ${chain}`);
    const added = now.filter((name) => !this.#unreadable.has(name));
    this.#unreadable = new Set([...ofOtherFamily, ...now]);
    if (added.length === 0) return;
    this.#log.warn("Chains hold nftables rules that iptables cannot read", {
      ipFamily: family,
      chains,
      effect: "Order and copies of the jumps in these chains are not checked",
      advice: "Keep native nftables rules in tables of their own",
    });
  }

  async #restore(family: IpFamily, changes: readonly RuleChange[]): Promise<void> {
    const input = renderRestoreInput(family, changes);
    await this.#run(family, { action: "write iptables rules", verb: "restore", input });
  }

  async #run(family: IpFamily, run: IptablesRun): Promise<ProgramResult> {
    const result = await this.#start(family, run);
    this.#check(family, run, result);
    return result;
  }

  #check(family: IpFamily, run: IptablesRun, result: ProgramResult): void {
    if (result.exitCode === 0) return;
    throw new IptablesError({ ...run, family, program: this.#programOf(family, run.verb) }, result);
  }

  #start(family: IpFamily, call: IptablesCall): Promise<ProgramResult> {
    return this.#runProgram(this.#callOf(family, call));
  }

  #callOf(family: IpFamily, { verb, input }: IptablesCall): ProgramCall {
    return {
      program: this.#programOf(family, verb),
      // Saving takes no lock: the kernel hands out a table whole.
      arguments: verb === "save" ? [] : ["-w", String(lockWaitSeconds), "--noflush", "--counters"],
      timeoutMs: timeoutMsFor(input),
      ...(input === undefined ? {} : { input }),
    };
  }

  #programOf(family: IpFamily, verb: IptablesCall["verb"]): string {
    return `${this.#choice.programs[family]}-${verb}`;
  }

  /** What remains to be done after a failure that gone jumps explain; undefined when they do not. */
  async #withoutGoneJumps(
    family: IpFamily,
    changes: readonly RuleChange[],
    error: unknown,
  ): Promise<readonly RuleChange[] | undefined> {
    const removes = changes.some(({ kind }) => kind === "jump-remove");
    if (!removes || !(error instanceof IptablesError) || error.table === undefined) {
      return undefined;
    }
    const pending = changesFrom(error.table, changes);
    const rest = await this.#dropGoneJumps(family, pending);
    return rest.length < pending.length ? rest : undefined;
  }

  async #dropGoneJumps(
    family: IpFamily,
    changes: readonly RuleChange[],
  ): Promise<readonly RuleChange[]> {
    const jumps = changes.flatMap((one) => (one.kind === "jump-remove" ? [one.jump] : []));
    const observed = await this.observe(family, { planned: { chains: targetsOf(jumps), jumps } });
    return dropGoneJumps(changes, observed, (rule) => renderRule(family, rule));
  }

  #hasUnreadable(family: IpFamily, changes: readonly RuleChange[]): boolean {
    return changes.some(
      (change) =>
        change.kind === "jump-remove" &&
        this.#unreadable.has(`${family} ${change.jump.table} ${change.jump.from}`),
    );
  }
}

function namesOf(planned: RuleSet | undefined): ReadonlySet<string> | undefined {
  if (planned === undefined) return undefined;
  const names = planned.chains.map(({ name }) => name);
  return new Set([...names, ...planned.jumps.map(({ from }) => from)]);
}

const allTables: ReadonlySet<TableName> = new Set(["raw", "mangle", "nat", "filter"]);

/** nat and filter, and what else a plan has chains in. */
function tablesOf(planned: RuleSet | undefined): ReadonlySet<TableName> {
  return new Set(["nat", "filter", ...(planned?.chains ?? []).map(({ table }) => table)]);
}

function timeoutMsFor(input = ""): number {
  return programTimeoutMs + Math.floor(input.length / 1_000) * timeoutMsPerKilobyte;
}
