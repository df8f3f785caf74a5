import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ipSetErrorWords } from "../../../../src/kernel/ipset/errors.ts";

const cases: readonly [errno: number, type: string, code: string | undefined, meaning: RegExp][] = [
  [4352, "hash:ip,port", "IPSET_ERR_HASH_FULL", /maxelem/],
  [4352, "bitmap:port", "IPSET_ERR_BITMAP_RANGE", /range/],
  [4098, "hash:ip", "IPSET_ERR_FIND_TYPE", /module/],
  [4100, "", "IPSET_ERR_BUSY", /references/],
  [17, "hash:ip", undefined, /a different type, family or maxelem/],
  [2, "hash:ip", undefined, /does not exist/],
];

describe("ipset error numbers", () => {
  for (const [errno, type, code, meaning] of cases) {
    it(`explain ${errno} of ${type === "" ? "any set" : type}`, () => {
      const words = ipSetErrorWords(errno, type);
      assert.equal(words.code, code);
      assert.match(words.meaning ?? "", meaning);
    });
  }

  it("leave other numbers to errno(3)", () => assert.deepEqual(ipSetErrorWords(1, "hash:ip"), {}));
});
