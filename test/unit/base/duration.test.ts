import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { durationText, parseDuration } from "../../../src/base/duration.ts";

describe("parseDuration", () => {
  const cases: readonly (readonly [text: string, milliseconds: number | undefined])[] = [
    ["0", 0],
    ["0s", 0],
    ["30s", 30_000],
    ["1h2m3s", 3_723_000],
    ["1.5h", 5_400_000],
    ["-1.5m", -90_000],
    ["+2ms", 2],
    [".5s", 500],
    ["5.s", 5_000],
    ["250us", 0.25],
    ["250µs", 0.25],
    ["", undefined],
    ["30", undefined],
    ["s", undefined],
    ["1 s", undefined],
    ["1s ", undefined],
    ["1d", undefined],
    ["--1s", undefined],
    ["1s1", undefined],
    ["Infinitys", undefined],
  ];
  for (const [text, milliseconds] of cases) {
    it(JSON.stringify(text), () => assert.equal(parseDuration(text), milliseconds));
  }
});

describe("durationText", () => {
  const cases: readonly (readonly [milliseconds: number, text: string])[] = [
    [0, "0s"],
    [0.000_000_1, "0s"],
    [0.000_5, "500ns"],
    [0.25, "250µs"],
    [1.5, "1.5ms"],
    [30_000, "30s"],
    [1_500, "1.5s"],
    [90_000, "1m30s"],
    [3_600_000, "1h0m0s"],
    [86_400_000.5, "24h0m0.0005s"],
    [-90_000, "-1m30s"],
  ];
  for (const [milliseconds, text] of cases) {
    it(text, () => assert.equal(durationText(milliseconds), text));
  }
});
