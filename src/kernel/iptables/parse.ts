/** Parses the output of `iptables-save`. Pure. */
import type { TableName } from "../../state/rule.ts";
import type { ObservedChain, ObservedRule } from "../kernel.ts";

/** The text is not output of `iptables-save`. The whole text is discarded. */
export class SavedTextError extends Error {
  /** `line` starts at 1. */
  constructor(problem: string, line: number, lineText: string) {
    const shown = lineText.length > 120 ? `${lineText.slice(0, 120)}…` : lineText;
    super(`Cannot read saved rules: line ${line}: ${problem}: ${JSON.stringify(shown)}`);
    this.name = "SavedTextError";
  }
}

/**
 * The table contains rules that iptables cannot print, because other software wrote them with nft. Chains without such
 * rules can still be read one by one, and all chains can be written.
 */
export class UnreadableTableError extends Error {
  constructor(table: TableName) {
    super(
      `Cannot read table ${table}: it contains nftables rules that iptables cannot print; ` +
        "keep them in a separate table",
    );
    this.name = "UnreadableTableError";
  }
}

/**
 * Returns the chains of the nat and filter tables, or of `tables`, in text order. Other tables are skipped. With
 * `names`, rules of other chains are skipped too. Counters and policies other than DROP are omitted. Throws a
 * {@link SavedTextError} if the text is not the complete output of `iptables-save`. Throws an
 * {@link UnreadableTableError} if the output omits a table, whose rules would otherwise appear to be missing.
 */
export function parseSaved(
  text: string,
  names?: ReadonlySet<string>,
  tables: ReadonlySet<string> = usualTables,
): readonly ObservedChain[] {
  const reader = new SavedReader(names, tables);
  for (const line of text.split("\n")) reader.read(line);
  return reader.finish();
}

/** Matches text in which every quote is closed. Inside quotes, `\` escapes the next character. */
const closedQuotes = /^(?:[^"]|"(?:[^"\\]|\\.)*")*$/s;

const usualTables: ReadonlySet<TableName> = new Set(["nat", "filter"]);

interface OpenChain extends ObservedChain {
  readonly rules: ObservedRule[];
}

/** Like {@link parseSaved}, line by line. Line numbers start at 1. */
export class SavedReader {
  readonly #names: ReadonlySet<string> | undefined;
  readonly #tables: ReadonlySet<string>;
  readonly #chains: OpenChain[] = [];
  /** The current table, between `*NAME` and `COMMIT`; otherwise "". */
  #table = "";
  #openChains = new Map<string, OpenChain>();
  #lastLine = 0;

  constructor(names: ReadonlySet<string> | undefined, tables: ReadonlySet<string> = usualTables) {
    this.#names = names;
    this.#tables = tables;
  }

  read(line: string): void {
    this.#lastLine += 1;
    const number = this.#lastLine;
    if (line === "") return;
    if (line.startsWith("#")) this.#readComment(line);
    else if (line.startsWith("*")) this.#openTable(line, number);
    else if (this.#table === "") throw new SavedTextError("outside of any table", number, line);
    else if (line === "COMMIT") this.#table = "";
    else if (this.#isRead(this.#table)) this.#readContent(this.#table, line, number);
  }

  finish(): readonly ObservedChain[] {
    const names = this.#names;
    if (this.#table === "") {
      return names === undefined
        ? this.#chains
        : this.#chains.filter(({ name }) => names.has(name));
    }
    throw new SavedTextError("the text ends before COMMIT", this.#lastLine, `*${this.#table}`);
  }

  /** iptables-nft-save omits a table with rules that it cannot express and prints this comment instead. */
  #readComment(line: string): void {
    const found = /^# Table `(\w+)' is incompatible/.exec(line);
    const table = found?.[1] ?? "";
    if (this.#isRead(table)) throw new UnreadableTableError(table);
  }

  #openTable(line: string, number: number): void {
    if (this.#table !== "")
      throw new SavedTextError("the previous table has no COMMIT", number, line);
    if (!/^\*[A-Za-z0-9_-]+$/.test(line)) throw new SavedTextError("no table name", number, line);
    this.#table = line.slice(1);
    this.#openChains = new Map();
  }

  #readContent(table: TableName, line: string, number: number): void {
    if (line.startsWith(":")) this.#declareChain(table, line, number);
    else if (!this.#isPassedOver(line)) this.#readRule(line, number);
  }

  /** Skips a rule after reading only its chain name, because there may be tens of thousands of third-party rules. */
  #isPassedOver(line: string): boolean {
    if (this.#names === undefined || !line.startsWith("-A ")) return false;
    const end = line.indexOf(" ", 3);
    return !this.#names.has(line.slice(3, end < 0 ? undefined : end));
  }

  #declareChain(table: TableName, line: string, number: number): void {
    const found = /^:(\S+) ([A-Z]+|-)(?: \[\d+:\d+\])?$/.exec(line);
    if (found === null) throw new SavedTextError("no chain declaration", number, line);
    const policy = found[2] === "DROP" ? ({ policy: "DROP" } as const) : {};
    const chain: OpenChain = { table, name: found[1] ?? "", rules: [], ...policy };
    if (this.#openChains.has(chain.name)) {
      throw new SavedTextError("the chain was already declared", number, line);
    }
    this.#openChains.set(chain.name, chain);
    this.#chains.push(chain);
  }

  #readRule(line: string, number: number): void {
    const found = /^(?:\[\d+:\d+\] )?-A (\S+)(?: (.+))?$/.exec(line);
    if (found === null) throw new SavedTextError("no rule", number, line);
    const chain = this.#openChains.get(found[1] ?? "");
    if (chain === undefined) throw new SavedTextError("the chain is not declared", number, line);
    const text = found[2] ?? "";
    if (text.includes('"') && !closedQuotes.test(text)) {
      throw new SavedTextError("a quote is not closed", number, line);
    }
    chain.rules.push({ text });
  }

  #isRead(table: string): table is TableName {
    return this.#tables.has(table);
  }
}
