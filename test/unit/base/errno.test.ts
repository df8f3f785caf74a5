import assert from "node:assert/strict";
import { constants } from "node:os";
import { describe, it } from "node:test";
import { errno, errnoName } from "../../../src/base/errno.ts";

describe("errnoName", () => {
  for (const [name, number] of Object.entries(errno)) {
    it(`${number} is ${name}`, () => assert.equal(errnoName(number), name));
  }

  it("the numbers are this machine's", () => {
    const machine: Readonly<Record<string, number>> = constants.errno;
    for (const [name, number] of Object.entries(errno)) assert.equal(machine[name], number);
  });

  it("includes the kernel's own numbers above the C library's", () => {
    assert.equal(errnoName(524), "ENOTSUPP");
  });

  it("falls back to the number", () => assert.equal(errnoName(4103), "errno 4103"));
});
