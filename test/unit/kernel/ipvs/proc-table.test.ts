import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { ProcTableSplitter } from "../../../../src/kernel/ipvs/proc-table.ts";
import type { ServerWithKey } from "../../../../src/kernel/ipvs/server-block.ts";
import { DecodeError } from "../../../../src/netlink/errors.ts";

/** In the form of Linux 6.1, trailing blanks included; the counts and the odd lines are ours. */
const table = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr 
  -> 0AF40106:192B      Masq    1      3          14        
  -> 0AF40105:192B      Route   0      0          0         
UDP  [fd00:0096:0000:0000:0000:0000:0000:000a]:0035 rr persistent 1080000 80000000
  -> [fd00:0244:0000:0000:0000:0000:0000:0005]:14E9      Masq    1      0          0         
SCTP 0A600003:0050 mh 
FWM  00000007 rr 
  -> 0AF40109:0000      Masq    1      0          0         
TCP  0A600004:0050 lc ops persistent 1000 FFFFFFFF
`;

function lineOf(text: string): string {
  return (
    table
      .split("\n")
      .filter((line) => line.includes(`-> ${text}`))
      .map((line) => `${line}\n`)[0] ?? ""
  );
}

interface SeenBlock {
  readonly hash: number;
  readonly server: ServerWithKey | undefined;
}

function blocksOf(...pieces: readonly string[]): readonly SeenBlock[] {
  const blocks: SeenBlock[] = [];
  const splitter = new ProcTableSplitter((block) => {
    blocks.push({ hash: block.hash(), server: block.read() });
    return true;
  });
  for (const piece of pieces) assert.ok(splitter.take(Buffer.from(piece, "latin1")));
  assert.ok(splitter.finish());
  return blocks;
}

function parse(...pieces: readonly string[]): ReadonlyMap<string, ServerWithKey[1]> {
  return new Map(
    blocksOf(...pieces).flatMap(({ server }) => (server === undefined ? [] : [server])),
  );
}

const expected = new Map([
  [
    "TCP 10.96.0.1:443",
    [
      { address: "10.244.1.6", port: 6443, weight: 1, forwardingMethod: 0 },
      { address: "10.244.1.5", port: 6443, weight: 0, forwardingMethod: 3 },
    ],
  ],
  ["UDP [fd00:96::a]:53", [{ address: "fd00:244::5", port: 5353, weight: 1, forwardingMethod: 0 }]],
  ["SCTP 10.96.0.3:80", []],
  ["TCP 10.96.0.4:80", []],
]);

describe("ProcTableSplitter", () => {
  it("reads virtual servers with their real servers; a firewall mark's belong to nobody", () => {
    assert.deepEqual(parse(table), expected);
  });

  it("reads the same in pieces of any size", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(table.length), { maxLength: 8 }), (cuts) => {
        const places = [0, ...cuts.sort((a, b) => a - b), table.length];
        const pieces = places.slice(1).map((end, index) => table.slice(places[index], end));
        assert.deepEqual(parse(...pieces), expected);
      }),
    );
  });

  it("reads the empty table", () => {
    assert.deepEqual(parse(table.split("\n").slice(0, 3).join("\n"), "\n"), new Map());
  });

  const broken: readonly { name: string; line: string }[] = [
    { name: "an address that is none", line: "TCP  0A60001:01BB rr" },
    { name: "an IPv6 address that is none", line: "TCP  [fd00::1::2]:01BB rr" },
    {
      name: "a real server without a weight",
      line: "TCP  0A600001:01BB rr\n  -> 0AF40106:192B Masq",
    },
    {
      name: "an unknown forwarding method",
      line: "TCP  0A600001:01BB rr\n  -> 0AF40106:192B Pigeon 1 0 0",
    },
  ];
  for (const { name, line } of broken) {
    it(`refuses ${name}`, () => assert.throws(() => parse(`${line}\n`), DecodeError));
  }

  it("refuses a table that ends in the middle of a line", () => {
    assert.throws(() => parse(table.slice(0, -3)), DecodeError);
  });

  it("has the same hashes in pieces of any size, and one for each virtual server", () => {
    const hashes = blocksOf(table).map(({ hash }) => hash);
    assert.equal(new Set(hashes).size, 7);
    assert.deepEqual(
      blocksOf(table.slice(0, 300), table.slice(300)).map(({ hash }) => hash),
      hashes,
    );
  });

  const changes: readonly { name: string; from: string; to: string }[] = [
    { name: "a weight", from: "Masq    1      3", to: "Masq    0      3" },
    { name: "a port", from: "192B      Masq    1      3", to: "192C      Masq    1      3" },
    { name: "the last digit of an address", from: "0AF40106:192B", to: "0AF40107:192B" },
    { name: "a real server that is gone", from: lineOf("0AF40105"), to: "" },
    {
      name: "one that came",
      from: lineOf("0AF40105"),
      to: lineOf("0AF40105") + lineOf("0AF40106"),
    },
  ];
  for (const { name, from, to } of changes) {
    it(`${name} changes the hash of its virtual server, and of no other`, () => {
      const changed = table.replace(from, to);
      assert.notEqual(changed, table);
      const before = new Set(blocksOf(table).map(({ hash }) => hash));
      const anew = blocksOf(changed).filter(({ hash }) => !before.has(hash));
      assert.deepEqual(
        anew.map(({ server }) => server?.[0]),
        ["TCP 10.96.0.1:443"],
      );
    });
  }

  it("leaves the counts of connections out of the hash, also those of IPv6", () => {
    const hashes = (text: string): readonly number[] => blocksOf(text).map(({ hash }) => hash);
    assert.deepEqual(
      hashes(table.replace("3          14        ", "9          2147483647")),
      hashes(table),
    );
    assert.deepEqual(
      hashes(
        table.replace("1      0          0         \nSCTP", "1      7          19        \nSCTP"),
      ),
      hashes(table),
    );
  });

  it("ends with the first block that is refused", () => {
    const heads: (string | undefined)[] = [];
    const splitter = new ProcTableSplitter((block) => {
      heads.push(block.read()?.[0]);
      return heads.length < 3;
    });
    assert.equal(splitter.take(Buffer.from(table)), false);
    assert.deepEqual(heads, [undefined, undefined, "TCP 10.96.0.1:443"]);
  });
});
