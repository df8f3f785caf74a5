import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import { orElse } from "../../base/or-else.ts";
import { isSubsystemMissing } from "../../netlink/errors.ts";
import type { Message } from "../../netlink/message.ts";
import { NetlinkTransport, type TransportDependencies } from "../../netlink/transport.ts";
import {
  type NftBaseChain,
  type NftKey,
  type NftRule,
  type NftRuleset,
  type NftSet,
  nftKey,
  noNftRules,
} from "../../state/nft-rule.ts";
import {
  decodeBaseChain,
  decodeElements,
  decodeRule,
  decodeSetHeader,
  writeNames,
} from "./decode-ruleset.ts";
import {
  familyWords,
  type NftFamily,
  type NftMessage,
  nftMessageKind,
  nftTransportOptions,
  tableName,
} from "./message.ts";
import { ruleText } from "./rule-text.ts";

/** iptables-nft's base chains, whose rules `iptables-save` prints. */
const iptablesChain =
  /^ip6? (?:raw|mangle|nat|filter) (?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING)$/;

/** Reads other software's rules from nf_tables, as `nft list ruleset` does. Opens a socket. */
export class NftRulesetClient {
  readonly #transport: NetlinkTransport;

  constructor(parts: TransportDependencies) {
    this.#transport = new NetlinkTransport(parts, nftTransportOptions);
  }

  /**
   * The rules that packets of each family traverse. If `hasIptables` is true, iptables-nft's rules are included, which
   * is needed if iptables itself uses the legacy backend. Throws NetlinkError, DecodeError.
   */
  async read(hasIptables: boolean): Promise<Readonly<Record<IpFamily, NftRuleset>>> {
    let both = noNftRules;
    for (const family of ["inet", "netdev", "bridge"] as const)
      both = merged(both, await this.#readFamily(family, hasIptables));
    const rulesets = { IPv4: noNftRules, IPv6: noNftRules };
    for (const family of ipFamilies) {
      rulesets[family] = merged(both, await this.#readFamily(family, hasIptables));
    }
    return rulesets;
  }

  close(): void {
    this.#transport.close();
  }

  async #readFamily(family: NftFamily, hasIptables: boolean): Promise<NftRuleset> {
    const baseChains = (await this.#baseChains(family)).filter(
      ({ table, name }) =>
        table !== `${familyWords[family]} ${tableName}` &&
        (hasIptables || !iptablesChain.test(nftKey(table, name))),
    );
    const chains = new Map<NftKey, NftRule[]>();
    const sets = new Map<NftKey, NftSet>();
    for (const table of new Set(baseChains.map((chain) => chain.table))) {
      const name = table.slice(familyWords[family].length + 1);
      for (const [set, value] of await this.#sets(family, name))
        sets.set(nftKey(table, set), value);
      for (const { chain, expressions } of await this.#dump(
        "getRule",
        family,
        name,
        { table: name },
        decodeRule,
      )) {
        const key = nftKey(table, chain);
        const setOf = (set: string): NftSet | undefined => sets.get(nftKey(table, set));
        const rules = chains.get(key) ?? [];
        rules.push({ expressions, text: ruleText(expressions, setOf) });
        chains.set(key, rules);
      }
    }
    return { baseChains, chains, sets };
  }

  async #baseChains(family: NftFamily): Promise<readonly NftBaseChain[]> {
    const found = await this.#dump("getChain", family, "chains", {}, (body) =>
      decodeBaseChain(body, familyWords[family]),
    );
    return found.filter((chain) => chain !== undefined);
  }

  async #sets(family: NftFamily, table: string): Promise<readonly (readonly [string, NftSet])[]> {
    const headers = await this.#dump("getSet", family, table, { table }, decodeSetHeader);
    const sets: (readonly [string, NftSet])[] = [];
    for (const { name, ...header } of headers) {
      const names = { table, set: name };
      const elements = await this.#dump("getElements", family, name, names, decodeElements);
      sets.push([name, { ...header, elements: elements.flat() }]);
    }
    return sets;
  }

  /** Empty if the kernel does not support nf_tables or the family. */
  async #dump<R>(
    command: NftMessage["command"],
    family: NftFamily,
    subject: string,
    names: { readonly table?: string; readonly set?: string },
    decode: (body: Message["body"]) => R,
  ): Promise<readonly R[]> {
    const message: NftMessage = {
      ...{ command, family, operation: "list nftables rules" },
      subject: `${familyWords[family]} ${subject}`,
      write: (writer) => writeNames(writer, names),
    };
    const listed = this.#transport.dump(nftMessageKind, message, ({ body }) => {
      body.skip(4, "nfgenmsg");
      return decode(body);
    });
    // The kernel may not support nf_tables.
    return await orElse(listed, isSubsystemMissing, []);
  }
}

function merged(one: NftRuleset, other: NftRuleset): NftRuleset {
  return {
    baseChains: [...one.baseChains, ...other.baseChains].sort((a, b) => a.priority - b.priority),
    chains: new Map([...one.chains, ...other.chains]),
    sets: new Map([...one.sets, ...other.sets]),
  };
}
