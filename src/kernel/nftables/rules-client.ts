import { errno } from "../../base/errno.ts";
import type { IpFamily } from "../../base/ip.ts";
import { orElse } from "../../base/or-else.ts";
import { isNotFound, NetlinkError } from "../../netlink/errors.ts";
import { messageFlags } from "../../netlink/netlink-package.ts";
import { NetlinkTransport, type TransportDependencies } from "../../netlink/transport.ts";
import { type Chain, type ChainKey, chainKey, type Rule } from "../../state/rule.ts";
import { parseRule } from "../iptables/parse-rule.ts";
import { renderRule } from "../iptables/render.ts";
import type { BackendFinding, Iptables, ObservedChain, RuleChange, RulesScope } from "../kernel.ts";
import { baseChains, mangleBaseChains } from "./chains.ts";
import { readNftGeneration, readPortId } from "./generation.ts";
import {
  createOwnedTable,
  createTable,
  decodeDormant,
  type NftMessage,
  nftMessageKind,
  nftTransportOptions,
  tableMessage,
  tableName,
} from "./message.ts";
import {
  createBaseChain,
  createChain,
  createRule,
  decodeChain,
  decodeRule,
  deleteChain,
  deleteRules,
  listChains,
  listRules,
  type RuleHeader,
} from "./rule-messages.ts";

/** Stands for the text of a rule that other software added to our table. */
const foreignText = "a rule of other software";

/** A table that exists only within a transaction. */
const probeTable = "kube-ipvs-probe";

/**
 * After these errors, it is unknown whether the kernel supports nf_tables: it may be loading modules or be busy with
 * other changes. The family is then treated as supported, because otherwise its virtual servers would be removed.
 */
const undecidedCodes: ReadonlySet<number> = new Set([
  errno.ETIMEDOUT,
  errno.ENOBUFS,
  errno.EBUSY,
  errno.EAGAIN,
]);

/** One rule for each kernel module that our rules need. */
const probeChains: readonly Chain[] = [
  {
    table: "nat",
    name: "POSTROUTING",
    rules: [{ matches: [], target: { kind: "masquerade", isRandomFully: true } }],
  },
  {
    table: "filter",
    name: "INPUT",
    rules: [
      {
        matches: [
          { kind: "conntrack-state", states: ["NEW"] },
          { kind: "address-type", end: "dst", type: "LOCAL", isNegated: false },
        ],
        target: { kind: "reject" },
      },
    ],
  },
];

const keptTable = "kube-ipvs-conntrack";
/**
 * The mere presence of a conntrack match makes the kernel track connections. The rule itself never matches, because a
 * nat chain does not see packets of established connections.
 */
const keptRule: Rule = {
  matches: [
    { kind: "comment", text: "keeps conntrack and NAT active" },
    { kind: "conntrack-state", states: ["ESTABLISHED"] },
  ],
  target: { kind: "return" },
};

/**
 * Rules in our nf_tables tables. Base chains replace iptables' built-in chains. Each request is one transaction. Opens
 * a socket; throws NetlinkError.
 */
export class NftRulesClient implements Iptables {
  readonly backend = "nftables";
  readonly choice: BackendFinding;
  readonly #transport: NetlinkTransport;

  /** `reason` says why rules are written with nf_tables, as text for the log. */
  constructor(parts: TransportDependencies, reason: string) {
    this.#transport = new NetlinkTransport(parts, nftTransportOptions);
    this.choice = { backend: this.backend, reason };
  }

  async checkBackend(): Promise<BackendFinding> {
    return this.choice;
  }

  /**
   * Reads our whole table, which has almost no rules for individual Services. A rule that other software added has a
   * text that none of our rules has.
   */
  async observe(
    family: IpFamily,
    { planned, hasOthers }: RulesScope = {},
  ): Promise<readonly ObservedChain[]> {
    const isRead = ({ table, name }: Omit<ObservedChain, "rules">): boolean =>
      planned === undefined ||
      hasOthers === true ||
      planned.chains.some((chain) => chain.table === table && chain.name === name) ||
      planned.jumps.some((jump) => jump.table === table && jump.from === name);
    const chains = await this.#transport.dump(nftMessageKind, listChains(family), decodeChain);
    const rules = await this.#rules(family);
    const isDormant = chains.length > 0 && (await this.#isDormant(family));
    return chains.filter(isRead).map((chain) => {
      const found = rules.get(chainKey(chain.table, chain.name)) ?? [];
      return {
        ...chain,
        ...(isDormant || chain.policy !== undefined ? { isDisabled: true } : {}),
        rules: found.map(({ text = foreignText }) => ({ text })),
      };
    });
  }

  readGeneration(): Promise<number | undefined> {
    return readNftGeneration(this.#transport);
  }

  readPortId(): Promise<number> {
    return readPortId(this.#transport);
  }

  /** Chains are created first and removed last. Removing a rule or chain that does not exist succeeds. */
  async apply(family: IpFamily, changes: readonly RuleChange[]): Promise<void> {
    if (changes.length === 0) return;
    const hasRemovals = changes.some(({ kind }) => kind.endsWith("-remove"));
    const hasJumps = changes.some(({ kind }) => kind.startsWith("jump-"));
    const chains = hasRemovals ? await this.observe(family) : [];
    const rules = hasJumps ? await this.#rules(family) : new Map<ChainKey, RuleHeader[]>();
    const written = changes.flatMap((change) =>
      change.kind === "chain-write" ? [{ ...change.chain, family }] : [],
    );
    const removed = changes.flatMap((change) => {
      if (change.kind !== "chain-remove") return [];
      const { table, chainName: name } = change;
      const isPresent = chains.some((chain) => chain.table === table && chain.name === name);
      return isPresent ? [{ family, table, name }] : [];
    });
    const hasMangle = changes.some(
      (change) => change.kind === "jump-insert" && change.jump.table === "mangle",
    );
    await this.#transact([
      createTable(family),
      ...(hasMangle ? mangleBaseChains : []).map((chain) => createBaseChain(chain, { family })),
      ...baseChains.map((chain) => createBaseChain(chain, { family })),
      ...written.map(createChain),
      ...written.flatMap((chain) => [
        deleteRules(chain),
        ...chain.rules.map((rule) => createRule(chain, rule, "last")),
      ]),
      ...jumpMessages(family, changes, rules),
      ...removed.map((chain) => deleteRules(chain)),
      ...removed.map(deleteChain),
    ]);
  }

  render(family: IpFamily, rule: Rule): string {
    return renderRule(family, rule);
  }

  parse(text: string): Rule | undefined {
    return parseRule(text);
  }

  /** Creates and removes a table within one transaction, which fails if the kernel lacks an expression. */
  async probe(
    family: IpFamily,
  ): Promise<{ readonly isSupported: boolean; readonly reason?: string }> {
    const context = { family, nftTable: probeTable };
    const table = tableMessage("newTable", family, probeTable);
    try {
      await this.#transact([
        { ...table, flags: messageFlags.create, operation: "create nft table" },
        ...baseChains.map((chain) => createBaseChain(chain, context)),
        ...probeChains.flatMap((chain) =>
          chain.rules.map((rule) => createRule({ ...context, ...chain }, rule, "last")),
        ),
        { ...tableMessage("deleteTable", family, probeTable), operation: "remove nft table" },
      ]);
      return { isSupported: true };
    } catch (error) {
      if (!(error instanceof NetlinkError)) throw error;
      if (undecidedCodes.has(error.errno)) return { isSupported: true };
      return { isSupported: false, reason: error.message };
    }
  }

  async keepConntrack(family: IpFamily): Promise<void> {
    const context = { family, nftTable: keptTable };
    const chains = baseChains.filter(({ name }) => name === "POSTROUTING");
    await this.#transact([
      createOwnedTable(family, keptTable),
      ...chains.map((chain) => createBaseChain(chain, context)),
      ...chains.map((chain) => createRule({ ...context, ...chain }, keptRule, "last")),
    ]);
  }

  close(): void {
    this.#transport.close();
  }

  /** Throws the first rejection. The transaction then had no effect. */
  async #transact(messages: readonly NftMessage[]): Promise<void> {
    const [failed] = await this.#transport.transaction(nftMessageKind, messages);
    if (failed !== undefined) throw Object.assign(failed.error, { isRejection: true });
  }

  /** Whether our table exists, but its rules are not evaluated. */
  async #isDormant(family: IpFamily): Promise<boolean> {
    const message = {
      ...tableMessage("getTable", family, tableName),
      operation: "read nft table",
    };
    const table = this.#transport.request(nftMessageKind, message, decodeDormant);
    const [isDormant = false] = await orElse(table, isNotFound, []);
    return isDormant;
  }

  async #rules(family: IpFamily): Promise<ReadonlyMap<ChainKey, readonly RuleHeader[]>> {
    const found = this.#transport.dump(nftMessageKind, listRules(family), (message) =>
      decodeRule(family, message),
    );
    const rules = await orElse(found, isNotFound, []);
    return Map.groupBy(rules, ({ table, chain }) => chainKey(table, chain));
  }
}

/**
 * One removal for each existing copy of a jump. Inserting a jump removes its first copy, which exists if the chain was
 * disabled.
 */
function jumpMessages(
  family: IpFamily,
  changes: readonly RuleChange[],
  present: ReadonlyMap<ChainKey, readonly RuleHeader[]>,
): readonly NftMessage[] {
  const removed = new Set<RuleHeader>();
  return changes.flatMap((change): readonly NftMessage[] => {
    if (change.kind !== "jump-insert" && change.kind !== "jump-remove") return [];
    const { table, from: name, rule } = change.jump;
    const chain = { family, table, name };
    const inserted = change.kind === "jump-insert" ? [createRule(chain, rule, "first")] : [];
    const text = renderRule(family, rule);
    const copy = (present.get(chainKey(table, name)) ?? []).find(
      (one) => one.text === text && !removed.has(one),
    );
    if (copy === undefined) return inserted;
    removed.add(copy);
    return [deleteRules(chain, copy.handle), ...inserted];
  });
}
