import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it } from "node:test";
import fc from "fast-check";
import { ByteHash } from "../../../../src/kernel/iptables/byte-hash.ts";

function hashOf(view: DataView, start: number, end: number, seed = 0): number {
  const hash = new ByteHash();
  hash.start(seed);
  hash.add(view, start, end);
  return hash.value;
}

function hash(bytes: Uint8Array, seed = 0): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return hashOf(view, 0, bytes.length, seed);
}

describe("the hash of bytes", () => {
  it("is the same for the same bytes, wherever they lie", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), fc.nat(5), (bytes, before) => {
        const moved = new DataView(Uint8Array.of(...new Array(before).fill(7), ...bytes, 9).buffer);
        const here = hashOf(moved, before, before + bytes.length);
        assert.equal(here, hash(Uint8Array.from(bytes)));
        assert.ok(Number.isSafeInteger(here) && here >= 0);
      }),
    );
  });

  it("draws its start when the program starts", () => {
    const file = JSON.stringify(
      new URL("../../../../src/kernel/iptables/byte-hash.ts", import.meta.url).href,
    );
    const script = `import(${file}).then(({ ByteHash }) => { const hash = new ByteHash(); hash.start(); console.log(hash.value); })`;
    const ask = (): string => execFileSync(process.execPath, ["-e", script], { encoding: "utf8" });
    assert.notEqual(ask(), ask());
  });

  it("is another one when one bit, the length or the seed is", () => {
    const bytes = Uint8Array.from({ length: 21 }, (_, index) => index);
    const all = [
      hash(bytes),
      hash(bytes, 1),
      hash(bytes.slice(0, -1)),
      hash(Uint8Array.of(...bytes, 0)),
    ];
    for (let bit = 0; bit < 8 * bytes.length; bit += 1) {
      const changed = Uint8Array.from(bytes);
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      all.push(hash(changed));
    }
    assert.equal(new Set(all).size, all.length);
  });
});
