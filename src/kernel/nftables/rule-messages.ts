/** Messages about chains and rules. linux/netfilter/nf_tables.h. */
import { errno } from "../../base/errno.ts";
import type { IpFamily } from "../../base/ip.ts";
import { bytes, text, u32be } from "../../netlink/attribute-field.ts";
import { attributeSet, nested } from "../../netlink/attribute-set.ts";
import type { Message } from "../../netlink/message.ts";
import { skipNetfilterHeader } from "../../netlink/netfilter.ts";
import { messageFlags } from "../../netlink/netlink-package.ts";
import type { Rule, TableName } from "../../state/rule.ts";
import { renderRule } from "../iptables/render.ts";
import type { ObservedChain } from "../kernel.ts";
import { type BaseChain, chainNameOf, chainOfName } from "./chains.ts";
import { encodeRule } from "./encode-rule.ts";
import { expressionItems, writeAttributes } from "./expressions.ts";
import { familyWords, type NftMessage, tableName } from "./message.ts";
import { decodeRuleText, encodeRuleText } from "./rule-user-data.ts";

/** NFTA_CHAIN_*; NFTA_HOOK_* inside `hook`. The priority is a signed number. */
const chainAttributes = attributeSet({
  table: text(1),
  name: text(3),
  hook: nested(4, attributeSet({ number: u32be(1), priority: u32be(2) })),
  policy: u32be(5),
  type: text(7),
});
/** NF_ACCEPT. */
const acceptPolicy = 1;

/** NFTA_RULE_*. */
const ruleFields = { table: text(1), chain: text(2), handle: bytes(3, 8), userData: bytes(7) };
const ruleAttributes = attributeSet(ruleFields);
/** NFTA_RULE_EXPRESSIONS. */
const expressionsType = 4;

const ruleMeanings: Readonly<Record<number, string>> = {
  [errno.ENOENT]:
    "a set or chain of the rule does not exist, or the kernel lacks a module such as nft_fib_ipv4, nft_masq, nft_ct or nft_reject_ipv4",
  [errno.EOPNOTSUPP]: "the kernel does not support an expression of this rule",
};
const chainMeanings: Readonly<Record<number, string>> = {
  [errno.EBUSY]: "a rule jumps to the chain; remove that rule first",
  [errno.ENOENT]: "the chain does not exist, or the kernel lacks the module nft_chain_nat",
  [errno.EEXIST]: "a chain with this name but a different hook or priority exists; remove it",
};

/** A chain in an nft table. Defaults to our table. */
export interface NftChain {
  readonly family: IpFamily;
  readonly nftTable?: string;
  readonly table: TableName;
  readonly name: string;
}

function placeOf({ nftTable = tableName, table, name }: NftChain): {
  readonly table: string;
  readonly chain: string;
} {
  return { table: nftTable, chain: chainNameOf(table, name) };
}

function about(
  command: NftMessage["command"],
  chain: NftChain,
  operation: string,
): Omit<NftMessage, "write"> {
  const place = placeOf(chain);
  const subject = `${familyWords[chain.family]} ${place.table} ${place.chain}`;
  const meanings = command === "newRule" ? ruleMeanings : chainMeanings;
  return { command, family: chain.family, operation, subject, meanings };
}

/** Creates the chain if it does not exist. */
export function createChain(chain: NftChain): NftMessage {
  const place = placeOf(chain);
  return {
    ...about("newChain", chain, "create nft chain"),
    flags: messageFlags.create,
    write: (writer) => chainAttributes.encode(writer, { table: place.table, name: place.chain }),
  };
}

/** Creates the base chain if it does not exist; otherwise only sets its policy. */
export function createBaseChain(
  base: BaseChain,
  context: Pick<NftChain, "family" | "nftTable">,
): NftMessage {
  const chain = { ...context, table: base.table, name: base.name };
  const place = placeOf(chain);
  return {
    ...about("newChain", chain, "create nft base chain"),
    flags: messageFlags.create,
    write: (writer) =>
      chainAttributes.encode(writer, {
        ...{ table: place.table, name: place.chain, type: base.type, policy: acceptPolicy },
        hook: { number: base.hook, priority: base.priority >>> 0 },
      }),
  };
}

/** Removes the chain, which must be empty. */
export function deleteChain(chain: NftChain): NftMessage {
  const place = placeOf(chain);
  return {
    ...about("deleteChain", chain, "remove nft chain"),
    write: (writer) => chainAttributes.encode(writer, { table: place.table, name: place.chain }),
  };
}

/** Creates the dump request for the chains in all of a family's tables. */
export function listChains(family: IpFamily): NftMessage {
  return { ...listing("getChain", family, "list chains of nft table"), write() {} };
}

/** Undefined if the chain is in another table. */
export function decodeChain({ body }: Message): Omit<ObservedChain, "rules"> | undefined {
  skipNetfilterHeader(body);
  const { table, name = "", policy = acceptPolicy } = chainAttributes.decode(body);
  const chain = table === tableName ? chainOfName(name) : undefined;
  return chain === undefined || policy === acceptPolicy ? chain : { ...chain, policy: "DROP" };
}

/** Adds a rule at the end of the chain or at its beginning. Throws a RuleValueError. */
export function createRule(chain: NftChain, rule: Rule, position: "first" | "last"): NftMessage {
  const expressions = encodeRule(chain.family, chain.table, rule);
  const userData = encodeRuleText(chain.family, rule);
  return {
    ...about("newRule", chain, `write rule "${renderRule(chain.family, rule)}" to nft chain`),
    flags: messageFlags.create | (position === "last" ? messageFlags.append : 0),
    write(writer) {
      ruleAttributes.encode(writer, placeOf(chain));
      writeAttributes(writer, [[expressionsType, expressionItems(expressions)]]);
      ruleAttributes.encode(writer, { userData });
    },
  };
}

/** Removes one rule, or all rules of the chain. */
export function deleteRules(chain: NftChain, handle?: Uint8Array): NftMessage {
  return {
    ...about("deleteRule", chain, "remove rules from nft chain"),
    write: (writer) =>
      ruleAttributes.encode(writer, {
        ...placeOf(chain),
        ...(handle === undefined ? {} : { handle }),
      }),
  };
}

/** Creates the dump request for all rules of our table. */
export function listRules(family: IpFamily): NftMessage {
  return {
    ...listing("getRule", family, "list rules of nft table"),
    write: (writer) => ruleAttributes.encode(writer, { table: tableName }),
  };
}

function listing(
  command: NftMessage["command"],
  family: IpFamily,
  operation: string,
): Omit<NftMessage, "write"> {
  return { command, family, operation, subject: `${familyWords[family]} ${tableName}` };
}

export interface RuleHeader {
  readonly table: TableName;
  readonly chain: string;
  readonly handle: Uint8Array;
  /** The canonical text. Undefined if other software wrote the rule. */
  readonly text: string | undefined;
}

/** Undefined if the rule is in a different table, because old kernels list the rules of all tables. */
export function decodeRule(family: IpFamily, { body }: Message): RuleHeader | undefined {
  skipNetfilterHeader(body);
  const { table, chain: chainName = "", handle, userData } = ruleAttributes.decode(body);
  const chain = table === tableName ? chainOfName(chainName) : undefined;
  if (chain === undefined || handle === undefined) return undefined;
  const text = userData === undefined ? undefined : decodeRuleText(family, userData);
  return { table: chain.table, chain: chain.name, handle: handle.slice(), text };
}
