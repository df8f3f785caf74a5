/**
 * Reads single chains through iptables-nft-restore: `-S CHAIN` in its input prints one chain, `-C` says whether a
 * rule is there, and neither changes anything. iptables-nft-save reads every rule of a table, and prints none of them
 * once any program put a rule there that only nft can print.
 */
import type { IpFamily } from "../../base/ip.ts";
import type { Jump, RuleSet, TableName } from "../../state/rule.ts";
import type { ObservedChain } from "../kernel.ts";
import type { ProgramResult } from "../program.ts";
import { checkChainName } from "./names.ts";
import { parseSaved } from "./parse.ts";
import { renderRule } from "./render.ts";

/** Runs iptables-nft-restore with an input, and resolves with how it ended. */
export type Restore = (input: string) => Promise<ProgramResult>;

export interface ReadByChain {
  /**
   * The chains of the plan that exist, and those that its jumps stand in. Of an unreadable one only our jumps are given,
   * each once and in the planned order.
   */
  readonly chains: readonly ObservedChain[];
  /** Built-in chains with rules that iptables cannot print: `nat POSTROUTING`. */
  readonly unreadable: readonly string[];
}

/** An answer of iptables-nft-restore that this file does not understand. */
export class UnexpectedAnswer extends Error {
  constructor(result: ProgramResult) {
    super(`Unexpected answer of iptables-nft-restore: ${result.errorOutput.trim()}`);
    this.name = "UnexpectedAnswer";
  }
}

interface ChainName {
  readonly table: TableName;
  readonly name: string;
  readonly isBuiltIn: boolean;
}

interface Listing extends ChainName {
  /** As `iptables-save` prints it; undefined: the chain is absent, or iptables cannot print it. */
  readonly saved: string | undefined;
}

/** Takes one run, one more for each chain or jump that is missing, and throws an {@link UnexpectedAnswer}. */
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
      ...found.flatMap(({ table, saved }) => parseSaved(inTable(table, saved ?? ""))),
      ...unreadable.map(({ table, name }) => chainOfJumps(family, { table, name }, jumps)),
    ],
    unreadable: [...hidden],
  };
}

/** Each once; ours first, since they are the ones that can be read. */
function chainsOf({ chains, jumps }: RuleSet): readonly ChainName[] {
  const names = [
    ...chains.map(({ table, name }) => ({ table, name, isBuiltIn: false })),
    ...jumps.map(({ table, from }) => ({ table, name: from, isBuiltIn: true })),
  ];
  return [...new Map(names.map((one) => [keyOf(one), one])).values()];
}

/** A check does not show how many copies there are. */
function uniqueJumps(family: IpFamily, jumps: readonly Jump[]): readonly Jump[] {
  const keyed = jumps.map((jump): [string, Jump] => [
    `${jump.table} ${jump.from} ${renderRule(family, jump.rule)}`,
    jump,
  ]);
  return [...new Map(keyed).values()];
}

/** A jump to a chain that is absent cannot stand anywhere; asking for it would be an error. */
function isPossible({ table, rule }: Jump, present: ReadonlySet<string>): boolean {
  const { target } = rule;
  return target.kind !== "jump" || present.has(keyOf({ table, name: target.chain }));
}

/** A run ends at the first chain that cannot be printed; the next one goes on behind it. */
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

/** iptables 1.8.9 says of an absent chain what it says of one with rules of nft; later ones distinguish them. */
const absentChain = /is incompatible, use 'nft' tool|No chain\/target\/match|does not exist/;

/**
 * A jump that stands above the first rule of nft is found for sure. Below some of them the program cannot look: what
 * is not found above is taken for absent. Inserted again, it stands first, and is found from then on.
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

/** The first jump that is absent; undefined where the program does not say which one it is. */
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

/** One table after the other, in the order given; each change of table ends the one before. */
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

/** The line, counted from 1, on which the value with this index stands in the input. */
function lineOf(wanted: readonly { readonly table: TableName }[], index: number): number {
  const tables = wanted.slice(0, index + 1).filter((_, at) => isFirstOfTable(wanted, at)).length;
  return index + 1 + tables + (tables - 1);
}

/** `-N CHAIN` or `-P CHAIN POLICY` begins each chain; what follows is as in `iptables-save`. */
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

/** As if they had been inserted in the planned order: the last stands first. */
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
