import { hash } from "node:crypto";
import { type IpFamily, ipFamilies } from "../../../src/base/ip.ts";
import { isOfIptablesMode } from "../../../src/kernel/iptables/backend.ts";
import { IptablesError } from "../../../src/kernel/iptables/errors.ts";
import { UnreadableTableError } from "../../../src/kernel/iptables/parse.ts";
import { parseRule } from "../../../src/kernel/iptables/parse-rule.ts";
import { renderRule } from "../../../src/kernel/iptables/render.ts";
import { renderRestoreInput } from "../../../src/kernel/iptables/restore-input.ts";
import type {
  BackendFinding,
  Iptables,
  ObservedChain,
  RuleChange,
  RulesScope,
} from "../../../src/kernel/kernel.ts";
import type { Rule, TableName } from "../../../src/state/rule.ts";
import { portalRules } from "../../../src/userspace/portal-rules.ts";
import { FakeTable, TableRefusal } from "./fake-tables.ts";
import type { Operation, Operations } from "./operations.ts";

type Tables = Readonly<Record<TableName, FakeTable>>;

/** The table order in a restore. If nat is rejected, filter has already changed. */
const tableOrder: readonly TableName[] = ["filter", "nat", "mangle"];

/** iptables and ip6tables in memory. */
export class FakeIptables implements Iptables {
  readonly backend: Iptables["backend"];
  choice: BackendFinding;
  /** The result of the next check of both backends. Defaults to the chosen backend. */
  finding: BackendFinding | undefined;
  /** If false, rule changes are only detected by reading the rules. */
  hasGenerations = true;
  readonly #operations: Operations;
  readonly #tables: Readonly<Record<IpFamily, Tables>>;
  #hasSet: (name: string) => boolean = () => true;
  /** Families whose programs do not work, with the reason that `probe` returns. */
  readonly unsupported: Map<IpFamily, string> = new Map();

  /** Selects changes whose table is rejected. Earlier tables in the restore are committed. */
  rejects: (family: IpFamily, change: RuleChange) => boolean = () => false;

  /** Chains with nftables rules that iptables cannot print: `IPv4 nat POSTROUTING`. */
  readonly unreadable: Set<string> = new Set();

  constructor(operations: Operations, backend: Iptables["backend"] = "legacy") {
    this.backend = backend;
    this.choice = { backend, reason: "the default of this system" };
    this.#operations = operations;
    this.#tables = { IPv4: makeTables("IPv4"), IPv6: makeTables("IPv6") };
  }

  /** Sets the function that looks up sets. A rule that names an unknown set is rejected. */
  useSets(hasSet: (name: string) => boolean): void {
    this.#hasSet = hasSet;
  }

  /** A table as another program sees it, to append foreign rules or to flush it. */
  table(family: IpFamily, name: TableName): FakeTable {
    return this.#tables[family][name];
  }

  /** Returns all chains that kube-ipvs may write, without delay or injected failures. */
  peek(family: IpFamily): readonly ObservedChain[] {
    return tableOrder.flatMap((name) => this.#tables[family][name].observe());
  }

  /** Number of rules in both families that refer to a set. */
  referencesTo(setName: string): number {
    return Object.values(this.#tables)
      .flatMap((tables) => Object.values(tables))
      .reduce((sum, table) => sum + table.referencesTo(setName), 0);
  }

  /** Looks for the rules of iptables and userspace mode, and adds them to `choice`. */
  findLeftovers(): void {
    const leftovers = new Map<IpFamily, readonly string[]>();
    let hasPortals = false;
    for (const family of ipFamilies) {
      const names = this.peek(family).map(({ table, name }) => ({ table, name }));
      hasPortals ||= names.some(({ name }) => portals.has(name));
      const found = names.filter(({ table, name }) => isOfIptablesMode(table, name));
      if (found.length === 0) continue;
      leftovers.set(
        family,
        found.map(({ table, name }) => `${table} ${name}`),
      );
    }
    const { backend, reason } = this.choice;
    this.choice = {
      ...{ backend, reason },
      ...(leftovers.size === 0 ? {} : { leftovers }),
      ...(hasPortals ? { hasPortals } : {}),
    };
  }

  async checkBackend(): Promise<BackendFinding> {
    return this.#operations.read("iptables", "check-backend", "", () => {
      const finding = this.finding ?? this.choice;
      if (finding.backend === this.backend) this.choice = finding;
      return finding;
    });
  }

  async observe(family: IpFamily, scope: RulesScope = {}): Promise<readonly ObservedChain[]> {
    return this.#operations.read("iptables", "observe", family, () => {
      const readsMangle = scope.planned?.chains.some(({ table }) => table === "mangle") === true;
      const hasAll = scope.hasAllTables === true;
      const written = this.peek(family).filter(
        ({ table }) => table !== "mangle" || readsMangle || hasAll,
      );
      const all = hasAll ? [...written, ...this.#tables[family].raw.observe()] : written;
      const canPrint = all.every((chain) => this.#isReadable(family, chain));
      return chainsInScope(all, scope, canPrint).map((chain) =>
        this.#isReadable(family, chain) ? chain : this.#jumpsAlone(family, chain, scope),
      );
    });
  }

  #isReadable(family: IpFamily, { table, name }: ObservedChain): boolean {
    return !this.unreadable.has(`${family} ${table} ${name}`);
  }

  /** For an unreadable chain, returns only the planned jumps, as the real client does. */
  #jumpsAlone(
    family: IpFamily,
    { table, name, rules }: ObservedChain,
    { planned }: RulesScope,
  ): ObservedChain {
    if (planned === undefined) throw new UnreadableTableError(table);
    const found = planned.jumps
      .filter((jump) => jump.table === table && jump.from === name)
      .map(({ rule }) => ({ text: renderRule(family, rule) }))
      .filter(({ text }) => rules.some((one) => one.text === text));
    return { table, name, rules: found.reverse() };
  }

  async readGeneration(family: IpFamily): Promise<number | undefined> {
    if (!this.hasGenerations) return undefined;
    return Number.parseInt(hash("sha256", JSON.stringify(this.peek(family))).slice(0, 12), 16);
  }

  async apply(family: IpFamily, changes: readonly RuleChange[]): Promise<void> {
    if (changes.length === 0) return;
    const input = renderRestoreInput(family, changes);
    this.#operations.change(iptablesOperation(family, changes), () => {
      for (const name of tableOrder) this.#commit(family, name, changes, input);
    });
  }

  render(family: IpFamily, rule: Rule): string {
    return renderRule(family, rule);
  }

  parse(text: string): Rule | undefined {
    return parseRule(text);
  }

  async probe(
    family: IpFamily,
  ): Promise<{ readonly isSupported: boolean; readonly reason?: string }> {
    const reason = this.unsupported.get(family);
    return reason === undefined ? { isSupported: true } : { isSupported: false, reason };
  }

  #commit(family: IpFamily, name: TableName, changes: readonly RuleChange[], input: string): void {
    const inTable = changes.filter((change) => tableOf(change) === name);
    if (inTable.length === 0) return;
    try {
      const rejected = inTable.find((change) => this.rejects(family, change));
      if (rejected !== undefined) throw new TableRefusal("Invalid argument", "COMMIT");
      this.#tables[family][name].commit(inTable, this.#hasSet);
      this.#operations.onChanged(iptablesOperation(family, inTable));
    } catch (error) {
      throw error instanceof TableRefusal ? iptablesError(family, error, input) : error;
    }
  }
}

const portals: ReadonlySet<string> = new Set(
  portalRules("IPv4", []).chains.map(({ name }) => name),
);

function chainsInScope(
  chains: readonly ObservedChain[],
  { planned, hasOthers }: RulesScope,
  canPrint: boolean,
): readonly ObservedChain[] {
  if (planned === undefined || (hasOthers === true && canPrint)) return chains;
  const names = new Set([
    ...planned.chains.map(({ name }) => name),
    ...planned.jumps.map(({ from }) => from),
  ]);
  return chains.filter(({ name }) => names.has(name));
}

function makeTables(family: IpFamily): Tables {
  return {
    nat: new FakeTable(family, "nat"),
    filter: new FakeTable(family, "filter"),
    mangle: new FakeTable(family, "mangle"),
    raw: new FakeTable(family, "raw"),
  };
}

/** Builds the error with the program's message and the input line. */
function iptablesError(family: IpFamily, refusal: TableRefusal, input: string): IptablesError {
  const program = family === "IPv4" ? "iptables-restore" : "ip6tables-restore";
  const line = input.split("\n").indexOf(refusal.lineText) + 1;
  return new IptablesError(
    { action: "write iptables rules", family, program, input },
    {
      exitCode: 2,
      output: "",
      errorOutput: `${program}: ${refusal.message}\nError occurred at line: ${line}\n`,
    },
  );
}

function tableOf(change: RuleChange): TableName {
  if (change.kind === "chain-write") return change.chain.table;
  return change.kind === "chain-remove" ? change.table : change.jump.table;
}

/** `chain-write nat KUBE-SERVICES`, `jump-insert nat OUTPUT KUBE-SERVICES` */
export function ruleChangeText(change: RuleChange): string {
  return `${change.kind} ${tableOf(change)} ${placeOf(change)}`;
}

/** `iptables apply IPv4: chain-write nat KUBE-SERVICES, jump-insert nat OUTPUT KUBE-SERVICES` */
function iptablesOperation(family: IpFamily, changes: readonly RuleChange[]): Operation {
  const subject = `${family}: ${changes.map(ruleChangeText).join(", ")}`;
  return { facility: "iptables", action: "apply", subject };
}

function placeOf(change: RuleChange): string {
  if (change.kind === "chain-write") return change.chain.name;
  if (change.kind === "chain-remove") return change.chainName;
  const { from, rule } = change.jump;
  return rule.target.kind === "jump" ? `${from} ${rule.target.chain}` : from;
}
