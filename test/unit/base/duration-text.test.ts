import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { durationText } from "../../../src/base/duration-text.ts";

describe("an age for people", () => {
  const cases: readonly (readonly [seconds: number, text: string])[] = [
    [0, "0 s"],
    [0.4, "0 s"],
    [3.2, "3 s"],
    [60, "1 min"],
    [245, "4 min 5 s"],
    [7_800, "2 h 10 min"],
    [86_400, "1 d"],
    [273_700, "3 d 4 h"],
    [-5, "0 s"],
  ];
  for (const [seconds, text] of cases) {
    it(`of ${seconds} seconds is ${text}`, () => assert.equal(durationText(seconds), text));
  }
});
