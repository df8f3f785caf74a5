import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { decode } from "./decoding.ts";

describe("an object without a safe name is ignored completely", () => {
  const named = (name: unknown, namespace: unknown = "default") => ({
    metadata: { name, namespace },
  });
  const cases: readonly {
    readonly name: string;
    readonly given: unknown;
    readonly want: string;
  }[] = [
    { name: "no object", given: 5, want: "(unnamed): not-an-object" },
    { name: "null", given: null, want: "(unnamed): not-an-object" },
    { name: "no metadata", given: {}, want: "(unnamed): metadata not-an-object" },
    { name: "no name", given: named(undefined), want: "default/: metadata.name invalid-name" },
    { name: "a number", given: named(7), want: "default/?: metadata.name invalid-name" },
    { name: "a slash", given: named("a/b"), want: "default/a/b: metadata.name invalid-name" },
    { name: "a colon", given: named("a:b"), want: "default/a:b: metadata.name invalid-name" },
    {
      name: "a line end",
      given: named("a\n"),
      want: "default/a\\u{a}: metadata.name invalid-name",
    },
    { name: "Unicode", given: named("ж"), want: "default/ж: metadata.name invalid-name" },
    {
      name: "no namespace",
      given: named("a", null),
      want: "/a: metadata.namespace invalid-name",
    },
    {
      name: "254 characters",
      given: named("a", "n".repeat(254)),
      want: `${"n".repeat(60)}…/a: metadata.namespace invalid-name`,
    },
  ];
  for (const { name, given, want } of cases) {
    it(name, () => {
      const { record, refusals } = decode("services", given);
      assert.equal(record, undefined);
      const told = refusals.map(({ subject, field, reason }) =>
        `${subject}: ${field} ${reason}`.replaceAll(/ +/g, " "),
      );
      assert.deepEqual(told, [want]);
    });
  }

  it("accepts 253 characters, upper case and underscores", () => {
    const name = `A_${"a".repeat(251)}`;
    assert.equal(decode("nodes", { metadata: { name } }).record?.name, name);
  });
});
