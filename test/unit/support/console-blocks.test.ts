import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isAsShown, readCommands } from "../../support/documents/console-blocks.ts";

describe("commands in a document", () => {
  it("are those of lab blocks, with the lines after them", () => {
    const document = [
      "text",
      "```sh",
      "$ not this",
      "```",
      "```console lab",
      "$ ls",
      "a",
      "b",
      "$ true",
      "```",
      "$ nor this",
    ];
    assert.deepEqual(readCommands(document.join("\n")), [
      { line: 6, command: "ls", output: ["a", "b"] },
      { line: 9, command: "true", output: [] },
    ]);
  });

  it("must be before their output", () => {
    assert.throws(() => readCommands("```console lab\nx\n```"), /Line 2/);
  });
});

describe("the output of a command", () => {
  const cases: readonly {
    readonly name: string;
    readonly shown: readonly string[];
    readonly printed: string;
    readonly want: boolean;
  }[] = [
    { name: "the same", shown: ["a", " b"], printed: "a  \n b\n", want: true },
    { name: "an additional line", shown: ["a"], printed: "a\nb\n", want: false },
    { name: "nothing, if nothing is shown", shown: [], printed: "\n", want: true },
    { name: "something, if nothing is shown", shown: [], printed: "x\n", want: false },
    { name: "any text in a line", shown: ["a … c"], printed: "a b c\n", want: true },
    {
      name: "not beyond the end of the line",
      shown: ["a … c"],
      printed: "a b\nx c\n",
      want: false,
    },
    { name: "any lines", shown: ["a", "…", "z"], printed: "a\nb\nc\nz\n", want: true },
    {
      name: "no lines, for … on its own line",
      shown: ["a", "…", "z"],
      printed: "a\nz\n",
      want: true,
    },
    {
      name: "characters with a meaning in patterns",
      shown: ["a.(*"],
      printed: "a.(*\n",
      want: true,
    },
    { name: "a dot is a dot", shown: ["10.96"], printed: "10x96\n", want: false },
  ];
  for (const { name, shown, printed, want } of cases) {
    it(`${want ? "matches" : "does not match"}: ${name}`, () => {
      assert.equal(isAsShown(shown, printed), want);
    });
  }
});
