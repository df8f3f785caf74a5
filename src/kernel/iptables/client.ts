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
import {
  type BackendChoice,
  type IptablesBackend,
  pickBackend,
  surveyBackends,
} from "./backend.ts";
import { IptablesError, isIptablesBusy } from "./errors.ts";
import type { RuleGenerations } from "./generations.ts";
import { changesFrom, dropGoneJumps, targetsOf } from "./gone-jumps.ts";
import { SavedReader, UnreadableTableError } from "./parse.ts";
import { parseRule } from "./parse-rule.ts";
import { readByChain, UnexpectedAnswer } from "./read-by-chain.ts";
import { renderRule } from "./render.ts";
import { renderRestoreInput } from "./restore-input.ts";

/** How long iptables waits for the xtables lock, in seconds. */
const lockWaitSeconds = 5;

/** Time limit for an iptables program. With 50,000 third-party rules, a restore takes seconds on a slow machine. */
const programTimeoutMs = 60_000;
/**
 * Additional time limit for each KB of input. In iptables mode, 5,000 Services with five endpoints each produce 9 MB of
 * input, which iptables-nft applies in ten seconds on a fast processor.
 */
const timeoutMsPerKilobyte = 50;

/**
 * Input that shows whether the kernel supports the tables. The legacy program always reads the table from the kernel
 * first, so its input makes no changes. The nft program does not contact the kernel for such input, so its input
 * creates and deletes a chain in one transaction.
 */
const probeInputs: Readonly<Record<IptablesBackend, string>> = {
  legacy: "*nat\nCOMMIT\n*filter\nCOMMIT\n",
  nft: ["nat", "filter"]
    .map((table) => `*${table}\n:KUBE-IPVS-PROBE - [0:0]\n-X KUBE-IPVS-PROBE\nCOMMIT\n`)
    .join(""),
};

export interface IptablesClientContext {
  readonly runProgram: RunProgram;
  /** If undefined, rule changes cannot be detected without reading the rules. */
  readonly generations?: Pick<RuleGenerations, "read">;
  /** If undefined, chains that cannot be read are not reported. */
  readonly log?: Logger;
}

interface IptablesCall {
  readonly verb: "save" | "restore";
  readonly input?: string;
}

interface IptablesRun extends IptablesCall {
  /** An action that completes the sentence "Cannot …", such as "read rules". */
  readonly action: string;
}

/** Uses iptables through its programs: one process per observation and per apply. */
export class IptablesClient implements Iptables {
  readonly #runProgram: RunProgram;
  readonly #generations: Pick<RuleGenerations, "read"> | undefined;
  readonly #log: Logger;
  #choice: BackendChoice;
  /** Families whose rules have been read before. Our chains then exist, so reading chain by chain is cheaper. */
  readonly #familiar = new Set<IpFamily>();
  /**
   * Built-in chains that cannot be read, such as `IPv4 nat POSTROUTING`. Each is logged once, until it can be read
   * again.
   */
  #unreadable: ReadonlySet<string> = new Set();

  /** `choice` is the result of `chooseBackend`; `generations` must belong to the same backend. */
  constructor(collaborators: IptablesClientContext, choice: BackendChoice) {
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

  /**
   * Checks again which backend the node uses. This client keeps the backend that it was created with. Rejects if its
   * rules cannot be read and therefore the other backend seems to be in use.
   */
  async checkBackend(): Promise<BackendChoice> {
    const surveys = await surveyBackends(this.#runProgram);
    const found = pickBackend(surveys);
    const { failure } = surveys[this.backend];
    if (found.backend === this.backend) this.#choice = found;
    else if (failure !== undefined) throw failure;
    return found;
  }

  /**
   * Legacy iptables always returns whole tables, so one `save` reads them all. The nft programs can read single chains.
   * Third-party rules then cost nothing, and the read works even if one of them cannot be printed.
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

  async readGeneration(family: IpFamily): Promise<number | undefined> {
    return this.#generations?.read(family);
  }

  /**
   * A change that removes a missing jump makes all changes to its table fail. After a failure, this method therefore
   * looks up the jumps and retries the remaining changes once. If a chain cannot be read, a failure does not show which
   * jump is missing, so the jumps are looked up before the first attempt.
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
   * Runs a restore that has no lasting effect on the two tables. The restore fails if the kernel lacks them. If another
   * program holds the lock, the family is still treated as supported; otherwise its existing rules would never be
   * updated again.
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
   * Runs `save` once, without a table name, to print all existing tables. Naming a missing table would create it. Reads
   * line by line, because a family's rules, including third-party rules, may exceed the maximum string length.
   */
  async #save(
    family: IpFamily,
    names: ReadonlySet<string> | undefined,
    tables: ReadonlySet<TableName>,
  ): Promise<readonly ObservedChain[]> {
    const reader = new SavedReader(names, tables);
    const run = { action: "read iptables rules", verb: "save" } as const;
    const call = this.#callOf(family, run);
    const result = await readLines(this.#runProgram, call, (line) => reader.read(line));
    this.#check(family, run, result);
    return reader.finish();
  }

  /** Returns undefined if the program's answer cannot be parsed (unknown version) or is too long to buffer. */
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
    this.#log.warn("Chains contain nftables rules that iptables cannot read", {
      ipFamily: family,
      chains,
      effect: "The order and number of jumps in these chains are not checked",
      advice: "Keep native nftables rules in separate tables",
    });
  }

  async #restore(family: IpFamily, changes: readonly RuleChange[]): Promise<void> {
    const input = renderRestoreInput(family, changes);
    await this.#run(family, { action: "write iptables rules", verb: "restore", input });
  }

  async #run(family: IpFamily, run: IptablesRun): Promise<void> {
    this.#check(family, run, await this.#start(family, run));
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
      // Saving needs no lock, because the kernel returns each table atomically.
      arguments: verb === "save" ? [] : ["-w", String(lockWaitSeconds), "--noflush", "--counters"],
      timeoutMs: timeoutMsFor(input),
      ...(input === undefined ? {} : { input }),
    };
  }

  #programOf(family: IpFamily, verb: IptablesCall["verb"]): string {
    return `${this.#choice.programs[family]}-${verb}`;
  }

  /**
   * The changes that remain after a failure caused by missing jumps; undefined if the failure has a different cause.
   */
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

/** nat, filter, and any other tables in which the plan has chains. */
function tablesOf(planned: RuleSet | undefined): ReadonlySet<TableName> {
  return new Set(["nat", "filter", ...(planned?.chains ?? []).map(({ table }) => table)]);
}

function timeoutMsFor(input = ""): number {
  return programTimeoutMs + Math.floor(input.length / 1_000) * timeoutMsPerKilobyte;
}
