import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { oneOf, positiveInteger, readOptions, someOf, text } from "../../cluster/options.ts";

const known = {
  focus: text("Services"),
  mode: oneOf("ipvs", "iptables"),
  away: positiveInteger(60),
  only: someOf(["away", "restore"]),
};

describe("Options of the programs in test/cluster", () => {
  it("have defaults", () => {
    assert.deepEqual(
      { ...readOptions([], known) },
      {
        kubernetes: "",
        stay: false,
        focus: "Services",
        mode: "ipvs",
        away: "60",
        only: "away,restore",
      },
    );
  });

  it("are read from the command line", () => {
    const args = ["--kubernetes=/k", "--stay", "--mode", "iptables", "--only=restore"];
    const { kubernetes, stay, mode, only } = readOptions(args, known);
    assert.deepEqual([kubernetes, stay, mode, only], ["/k", true, "iptables", "restore"]);
  });

  for (const [arg, message] of [
    ["--mode=nftables", /^--mode=nftables: must be ipvs or iptables$/],
    ["--away=0", /^--away=0: must be a positive integer$/],
    ["--only=away,x", /^--only=away,x: must be of away,restore$/],
    ["--unknown", /Unknown option '--unknown'/],
  ] as const) {
    it(`are rejected: ${arg}`, () => {
      assert.throws(() => readOptions([arg], known), { message });
    });
  }
});
