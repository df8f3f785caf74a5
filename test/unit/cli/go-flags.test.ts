import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { normaliseFlags } from "../../../src/cli/go-flags.ts";

const flags = [
  { name: "v", short: "v", isBoolean: false },
  { name: "config", alias: "own-config", isBoolean: false },
  { name: "masquerade-all", isBoolean: true },
];

describe("normaliseFlags", () => {
  const cases: readonly (readonly [given: readonly string[], want: readonly string[]])[] = [
    [["--config=a"], ["--config=a"]],
    [["--config", "a"], ["--config=a"]],
    [["--config", "--odd"], ["--config=--odd"]],
    [["--config="], ["--config="]],
    [["--config=a=b"], ["--config=a=b"]],
    [["--config"], ["--config"]],
    [["--own-config=a"], ["--config=a"]],
    [["--own_config", "a"], ["--config=a"]],
    [["--masquerade-all"], ["--masquerade-all=true"]],
    [["--masquerade-all=false"], ["--masquerade-all=false"]],
    [
      ["--masquerade-all", "false"],
      ["--masquerade-all=true", "false"],
    ],
    [["--masquerade_all"], ["--masquerade-all=true"]],
    [["--config", "a_b"], ["--config=a_b"]],
    [["--config=a_b"], ["--config=a_b"]],
    [["-v", "2"], ["--v=2"]],
    [["-v=2"], ["--v=2"]],
    [["-v2"], ["--v=2"]],
    [["--v=2"], ["--v=2"]],
    [["--v", "2"], ["--v=2"]],
    [["-v"], ["--v"]],
    [["-x"], ["-x"]],
    [
      ["-config", "a"],
      ["-config", "a"],
    ],
    [
      ["--nonsense", "a"],
      ["--nonsense", "a"],
    ],
    [["--nonsense=a"], ["--nonsense", "a"]],
    [
      ["a", ""],
      ["a", ""],
    ],
    [["--config", "a\nb"], ["--config=a\nb"]],
    [
      ["--", "-v", "2"],
      ["--", "-v", "2"],
    ],
  ];
  for (const [given, want] of cases) {
    it(JSON.stringify(given), () => assert.deepEqual(normaliseFlags(given, flags), want));
  }
});
