/**
 * Reads single chains through iptables-nft-restore. In its input, `-S CHAIN` prints one chain and `-C` checks whether a
 * rule exists; neither changes anything. In contrast, iptables-nft-save reads every rule of a table, and prints none of
 * them if the table contains a rule that only nft can print.
 */
import type { IpFamily } from "../../base/ip.ts";
import type { Jump, RuleSet, TableName } from "../../state/rule.ts";
import type { ObservedChain } from "../kernel.ts";
import type { ProgramResult } from "../program.ts";
import { checkChainName } from "./names.ts";
import { parseSaved } from "./parse.ts";
import { renderRule } from "./render.ts";

/** Runs iptables-nft-restore with an input and resolves with its result. */
export type Restore = (input: string) => Promise<ProgramResult>;

export interface ReadByChain {
  /**
   * The existing chains among those of the plan, and the chains that contain the plan's jumps. For a chain that cannot
   * be read, the rules are the planned jumps found in it, each once and in the planned order.
   */
  readonly chains: readonly ObservedChain[];
  /** Built-in chains with rules that iptables cannot print, such as `nat POSTROUTING`. */
  readonly unreadable: readonly string[];
}

/** Output of iptables-nft-restore that cannot be parsed. */
export class UnexpectedAnswer extends Error {
  constructor(result: ProgramResult) {
    super(`Unexpected output from iptables-nft-restore: ${result.errorOutput.trim()}`);
    this.name = "UnexpectedAnswer";
  }
}

interface ChainName {
  readonly table: TableName;
  readonly name: string;
  readonly isBuiltIn: boolean;
}

interface Listing extends ChainName {
  /** The chain as `iptables-save` prints it. Undefined if the chain is absent or iptables cannot print it. */
  readonly saved: string | undefined;
}

/** Starts one process, and one more for each missing chain or jump. Throws an {@link UnexpectedAnswer}. */
export async function readByChain(
  family: IpFamily,
  planned: RuleSet,
  restore: Restore,
): Promise<ReadByChain> {
  const listings = await listChains(chainsOf(planned), restore);
  const found = listings.filter(({ saved }) => saved !== undefined);
  const present = new Set(found.map(keyOf));
  const unreadable = listings.filter(({ saved, isBuiltIn }) => isBuiltIn && saved === undefined);
  const hidden = new Set(unreadable.map(keyOf));
  const candidates = uniqueJumps(family, planned.jumps).filter(
    (jump) =>
      hidden.has(keyOf({ table: jump.table, name: jump.from })) && isPossible(jump, present),
  );
  const jumps = await findJumps(family, candidates, restore);
  return {
    chains: [
      ...found.flatMap(({ table, saved }) =>
        parseSaved(inTable(table, saved ?? ""), undefined, new Set([table])),
      ),
      ...unreadable.map(({ table, name }) => chainOfJumps(family, { table, name }, jumps)),
    ],
    unreadable: [...hidden],
  };
}

/** Lists each chain once. The planned chains are listed first, because they can always be read. */
function chainsOf({ chains, jumps }: RuleSet): readonly ChainName[] {
  const names = [
    ...chains.map(({ table, name }) => ({ table, name, isBuiltIn: false })),
    ...jumps.map(({ table, from }) => ({ table, name: from, isBuiltIn: true })),
  ];
  return [...new Map(names.map((one) => [keyOf(one), one])).values()];
}

/** The jumps without duplicates, because `-C` does not show how many copies of a rule exist. */
function uniqueJumps(family: IpFamily, jumps: readonly Jump[]): readonly Jump[] {
  const keyed = jumps.map((jump): [string, Jump] => [
    `${jump.table} ${jump.from} ${renderRule(family, jump.rule)}`,
    jump,
  ]);
  return [...new Map(keyed).values()];
}

/** A jump to an absent chain cannot exist, and checking for it would be an error. */
function isPossible({ table, rule }: Jump, present: ReadonlySet<string>): boolean {
  const { target } = rule;
  return target.kind !== "jump" || present.has(keyOf({ table, name: target.chain }));
}

/** Lists the chains. If the program stops at a chain that it cannot print, another run continues with the next one. */
async function listChains(
  wanted: readonly ChainName[],
  restore: Restore,
): Promise<readonly Listing[]> {
  const listings: Listing[] = [];
  while (listings.length < wanted.length) {
    const rest = wanted.slice(listings.length);
    const result = await restore(inputOf(rest, ({ name }) => `-S ${checkChainName(name)}`));
    const printed = splitListing(result.output);
    if (printed.length > rest.length) throw new UnexpectedAnswer(result);
    for (const [index, { name, saved }] of printed.entries()) {
      const chain = rest[index];
      if (chain === undefined || chain.name !== name) throw new UnexpectedAnswer(result);
      listings.push({ ...chain, saved });
    }
    const stopped = rest[printed.length];
    if (stopped === undefined) continue;
    if (result.exitCode === 0 || !absentChain.test(result.errorOutput)) {
      throw new UnexpectedAnswer(result);
    }
    listings.push({ ...stopped, saved: undefined });
  }
  return listings;
}

/**
 * iptables 1.8.9 prints the same message for an absent chain and for one with native nft rules; later versions
 * distinguish them.
 */
const absentChain = /is incompatible, use 'nft' tool|No chain\/target\/match|does not exist/;

/**
 * Returns which jumps exist. Jumps above the first native nft rule are always found. The program does not see jumps
 * below some nft rules, so these are treated as absent. They are then inserted again at the top of the chain, where
 * they are always found.
 */
async function findJumps(
  family: IpFamily,
  wanted: readonly Jump[],
  restore: Restore,
): Promise<readonly Jump[]> {
  const lineFor = ({ from, rule }: Jump): string =>
    `-C ${checkChainName(from)} ${renderRule(family, rule)}`;
  const found: Jump[] = [];
  for (let rest = wanted; rest.length > 0; ) {
    const result = await restore(inputOf(rest, lineFor));
    if (result.exitCode === 0) return [...found, ...rest];
    const index = absentJump(rest, result);
    if (index === undefined) return [...found, ...(await findOneByOne(family, rest, restore))];
    found.push(...rest.slice(0, index));
    rest = rest.slice(index + 1);
  }
  return found;
}

/** The index of the first absent jump; undefined if the program does not say which jump is absent. */
function absentJump(wanted: readonly Jump[], result: ProgramResult): number | undefined {
  if (unreadableRule.test(result.errorOutput)) return wanted.length === 1 ? 0 : undefined;
  const line = Number(/line (\d+) failed: Bad rule/.exec(result.errorOutput)?.[1]);
  const index = wanted.findIndex((_, position) => lineOf(wanted, position) === line);
  if (index < 0) throw new UnexpectedAnswer(result);
  return index;
}

async function findOneByOne(
  family: IpFamily,
  wanted: readonly Jump[],
  restore: Restore,
): Promise<readonly Jump[]> {
  const found: Jump[] = [];
  for (const jump of wanted) found.push(...(await findJumps(family, [jump], restore)));
  return found;
}

const unreadableRule = /Parsing nftables rule failed/;

/** Formats the values as input, in the given order. The input commits a table before the next one begins. */
function inputOf<T extends { readonly table: TableName }>(
  wanted: readonly T[],
  line: (one: T) => string,
): string {
  const lines = wanted.flatMap((one, index) => [
    ...(isFirstOfTable(wanted, index) ? [`*${one.table}`] : []),
    line(one),
    ...(isFirstOfTable(wanted, index + 1) ? ["COMMIT"] : []),
  ]);
  return `${lines.join("\n")}\n`;
}

function isFirstOfTable(wanted: readonly { readonly table: TableName }[], index: number): boolean {
  return wanted[index]?.table !== wanted[index - 1]?.table;
}

/** The input line (from 1) of the value with this index. */
function lineOf(wanted: readonly { readonly table: TableName }[], index: number): number {
  const tables = wanted.slice(0, index + 1).filter((_, at) => isFirstOfTable(wanted, at)).length;
  return index + 1 + tables + (tables - 1);
}

/** Each chain begins with `-N CHAIN` or `-P CHAIN POLICY`. The following lines are in `iptables-save` format. */
function splitListing(output: string): readonly { name: string; saved: string }[] {
  const chains: { name: string; saved: string }[] = [];
  for (const line of output.split("\n")) {
    const head = /^-(?:N (\S+)|P (\S+) ([A-Z]+))$/.exec(line);
    const last = chains.at(-1);
    if (head !== null) {
      const name = head[1] ?? head[2] ?? "";
      chains.push({ name, saved: `:${name} ${head[3] ?? "-"} [0:0]\n` });
    } else if (last !== undefined && line !== "") {
      last.saved += `${line}\n`;
    }
  }
  return chains;
}

function inTable(table: TableName, saved: string): string {
  return `*${table}\n${saved}COMMIT\n`;
}

/** The chain as if the jumps had been inserted at its top in the planned order. The last jump is the first rule. */
function chainOfJumps(
  family: IpFamily,
  { table, name }: Pick<ChainName, "table" | "name">,
  jumps: readonly Jump[],
): ObservedChain {
  const rules = jumps
    .filter((jump) => jump.table === table && jump.from === name)
    .map(({ rule }) => ({ text: renderRule(family, rule) }))
    .reverse();
  return { table, name, rules };
}

function keyOf({ table, name }: Pick<ChainName, "table" | "name">): string {
  return `${table} ${name}`;
}
