import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  ProcTableParser,
  type RealServerTable,
  type SeenBlocks,
} from "../../../../src/kernel/ipvs/proc-table.ts";
import type { FamiliarServers } from "../../../../src/kernel/kernel.ts";
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

function parse(...pieces: readonly string[]): RealServerTable {
  return parserOf(pieces).table;
}

function parserOf(
  pieces: readonly string[],
  seen?: SeenBlocks,
  familiar?: FamiliarServers,
): { readonly table: RealServerTable; readonly blocks: SeenBlocks } {
  const parser = new ProcTableParser(seen, familiar);
  for (const piece of pieces) parser.take(Buffer.from(piece, "latin1"));
  return { table: parser.finish(), blocks: parser.blocks };
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

describe("ProcTableParser", () => {
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

  it("has the same lists as before for virtual servers of which no byte changed", () => {
    const before = parserOf([table]);
    const after = parserOf([table.slice(0, 300), table.slice(300)], before.blocks);
    assert.deepEqual(after.table, expected);
    for (const [key, realServers] of after.table) assert.equal(realServers, before.table.get(key));
  });

  const changes: readonly { name: string; from: string; to: string }[] = [
    { name: "a weight", from: "Masq    1      3", to: "Masq    0      3" },
    { name: "a count of connections", from: "3          14", to: "3          15" },
    { name: "a port", from: "192B      Masq    1      3", to: "192C      Masq    1      3" },
    { name: "a real server that is gone", from: lineOf("0AF40105"), to: "" },
    {
      name: "one that came",
      from: lineOf("0AF40105"),
      to: lineOf("0AF40105") + lineOf("0AF40106"),
    },
  ];
  for (const { name, from, to } of changes) {
    it(`reads ${name} anew, and nothing else`, () => {
      const before = parserOf([table]);
      const changed = table.replace(from, to);
      assert.notEqual(changed, table);
      const after = parserOf([changed], before.blocks).table;
      assert.deepEqual(after, parse(changed));
      const anew = [...after].filter(([key, list]) => list !== before.table.get(key));
      assert.deepEqual(
        anew.map(([key]) => key),
        ["TCP 10.96.0.1:443"],
      );
    });
  }

  it("has the familiar list where that says the same, in either order, and its own where not", () => {
    const own = parserOf([table]);
    const [web, dns] = ["TCP 10.96.0.1:443", "UDP [fd00:96::a]:53"].map((key) =>
      own.table.get(key),
    );
    const wanted = new Map([
      ["TCP 10.96.0.1:443", structuredClone(web ?? []).toReversed()],
      ["UDP [fd00:96::a]:53", (dns ?? []).map((server) => ({ ...server, weight: 0 }))],
    ]);
    const shared = parserOf([table], own.blocks, (key) => wanted.get(key));
    assert.equal(shared.table.get("TCP 10.96.0.1:443"), wanted.get("TCP 10.96.0.1:443"));
    assert.equal(shared.table.get("UDP [fd00:96::a]:53"), own.table.get("UDP [fd00:96::a]:53"));
    const again = parserOf([table], shared.blocks);
    assert.equal(again.table.get("TCP 10.96.0.1:443"), wanted.get("TCP 10.96.0.1:443"));
  });

  it("forgets what was not in the table before it", () => {
    const first = parserOf([table]);
    const second = parserOf([table.slice(0, table.indexOf("TCP "))], first.blocks);
    assert.equal(second.table.size, 0);
    assert.ok(second.blocks.size < first.blocks.size);
  });
});
