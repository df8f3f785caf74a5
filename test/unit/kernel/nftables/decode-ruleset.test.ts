/** Tests recorded kernel replies. `files/ruleset.txt` contains the ruleset in nft syntax. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import {
  decodeBaseChain,
  decodeElements,
  decodeRule,
  decodeSetHeader,
} from "../../../../src/kernel/nftables/decode-ruleset.ts";
import { ruleText } from "../../../../src/kernel/nftables/rule-text.ts";
import { ByteReader } from "../../../../src/netlink/byte-reader.ts";
import type { NftSet } from "../../../../src/state/nft-rule.ts";

const lines = readFileSync(join(import.meta.dirname, "files/ruleset.txt"), "utf8").split("\n");

/** The replies of one kind. */
function replies(kind: string): readonly ByteReader[] {
  return lines
    .filter((line) => line.startsWith(`${kind} `))
    .map((line) => new ByteReader(Buffer.from(line.slice(kind.length + 1), "hex")));
}

const sets = new Map<string, NftSet>(
  replies("set").map((body) => {
    const { name, ...header } = decodeSetHeader(body);
    return [name, { ...header, elements: replies(`elements ${name}`).flatMap(decodeElements) }];
  }),
);

describe("a third-party ruleset", () => {
  it("has base chains with hook, priority and policy", () => {
    assert.deepEqual(
      replies("chain").map((body) => decodeBaseChain(body, "inet")),
      [
        {
          ...{ table: "inet fw", name: "input", hook: "INPUT" },
          ...{ priority: 5, isDropPolicy: true },
        },
        undefined,
      ],
    );
  });

  it("has rules, which are written as nft writes them, apart from protocol names", () => {
    const texts = replies("rule").map((body) => {
      const { chain, expressions } = decodeRule(body);
      return `${chain}: ${ruleText(expressions, (name) => sets.get(name))}`;
    });
    assert.deepEqual(texts, [
      "input: ct state established,related accept",
      'input: iifname "cni*" ip saddr 10.0.0.0/9 th dport { 80, 443-500 } accept',
      "input: th dport vmap { 22 : accept, 80 : jump other }",
      "input: fib daddr type local tcp flags & 23 == 2 counter drop",
      "input: th dport >= 30000 th dport <= 32767 meta mark 0x4000 limit drop",
      "input: ip6 saddr fd00::1 reject",
      "other: ip daddr 192.168.0.0/16 return",
    ]);
  });

  it("has sets with interval ends, and maps with verdicts", () => {
    const [ports, map] = [sets.get("__set0"), sets.get("__map0")];
    assert.deepEqual(
      ports?.elements.map(({ key, isEnd }) => [
        key[0] === undefined ? 0 : key[0] * 256 + (key[1] ?? 0),
        isEnd,
      ]),
      [
        [501, true],
        [443, false],
        [81, true],
        [80, false],
        [0, true],
      ],
    );
    assert.deepEqual([ports?.isInterval, ports?.keyLength, map?.isInterval], [true, 2, false]);
    assert.deepEqual(
      map?.elements.map(({ verdict }) => verdict),
      [{ kind: "jump", chain: "other" }, { kind: "accept" }],
    );
  });
});
