import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ListSplitter } from "../../../../src/api/cluster/list-splitter.ts";
import fc from "../../../support/fast-check.ts";

const limitBytes = 1_000_000;

/** Splits a text that arrives in chunks of the given sizes, which repeat. */
function split(
  text: string,
  chunkSizes: readonly number[] = [1],
): { readonly items: readonly unknown[]; readonly envelope: unknown } {
  const bytes = Buffer.from(text);
  const splitter = new ListSplitter(limitBytes);
  const items: unknown[] = [];
  for (let start = 0, turn = 0; start < bytes.length; turn += 1) {
    const size = chunkSizes[turn % chunkSizes.length] ?? 1;
    items.push(...splitter.push(bytes.subarray(start, start + size)));
    start += size;
  }
  return { items, envelope: splitter.end() };
}

describe("splitting a list as it arrives", () => {
  const cases: readonly {
    readonly name: string;
    readonly text: string;
    readonly items: readonly unknown[];
    readonly envelope: unknown;
  }[] = [
    {
      name: "the usual order of keys",
      text: '{"kind":"L","metadata":{"resourceVersion":"1"},"items":[{"a":1},{"b":[2,{"c":3}]}]}',
      items: [{ a: 1 }, { b: [2, { c: 3 }] }],
      envelope: { kind: "L", metadata: { resourceVersion: "1" }, items: [] },
    },
    {
      name: "items first, with whitespace everywhere",
      text: ' { "items" : [ { "a" : 1 } , {"b":2} ] , "kind" : "L" } \n',
      items: [{ a: 1 }, { b: 2 }],
      envelope: { items: [], kind: "L" },
    },
    { name: "no items", text: '{"items":[],"x":1}', items: [], envelope: { items: [], x: 1 } },
    { name: "items null", text: '{"items":null}', items: [], envelope: { items: null } },
    { name: "no items key", text: '{"a":[1,2]}', items: [], envelope: { a: [1, 2] } },
    {
      name: "items as a value and in nested objects",
      text: '{"a":"items","b":{"items":[1]},"c":["items",[2]],"items":[3]}',
      items: [3],
      envelope: { a: "items", b: { items: [1] }, c: ["items", [2]], items: [] },
    },
    {
      name: "structure inside strings",
      text: '{"items":[{"a":"]},{\\"[\\\\"},{"b":"\\\\\\""}]}',
      items: [{ a: ']},{"[\\' }, { b: '\\"' }],
      envelope: { items: [] },
    },
    { name: "an escaped key", text: '{"it\\u0065ms":[1]}', items: [1], envelope: { items: [] } },
    {
      name: "items that are not objects",
      text: '{"items":[1,"a,]",null,[[]],true]}',
      items: [1, "a,]", null, [[]], true],
      envelope: { items: [] },
    },
    {
      name: "multi-byte characters",
      text: '{"items":[{"a":"жé漢😀"}],"ж":"😀"}',
      items: [{ a: "жé漢😀" }],
      envelope: { items: [], ж: "😀" },
    },
  ];
  for (const { name, text, items, envelope } of cases) {
    it(name, () => {
      for (const sizes of [[1], [2, 3], [text.length * 4]]) {
        assert.deepEqual(split(text, sizes), { items, envelope });
      }
    });
  }

  it("yields the same as JSON.parse, regardless of how the text is split", () => {
    const lists = fc.record({
      before: fc.dictionary(fc.string({ minLength: 1 }), fc.jsonValue()),
      items: fc.array(fc.jsonValue()),
      after: fc.dictionary(fc.string({ minLength: 1 }), fc.jsonValue()),
      indent: fc.constantFrom(0, 2),
      sizes: fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }),
    });
    fc.assert(
      fc.property(lists, ({ before, items, after, indent, sizes }) => {
        const { items: _, ...first } = before;
        const { items: __, ...last } = after;
        const whole = { ...first, items, ...last };
        const text = JSON.stringify(whole, null, indent);
        const want = JSON.parse(text) as typeof whole;
        const got = split(text, sizes);
        assert.deepEqual(got.items, want.items);
        assert.deepEqual(got.envelope, { ...want, items: [] });
      }),
    );
  });

  it("throws a syntax error for every truncated text", () => {
    const text = '{"kind":"L","items":[{"a":"\\u00e9ж"},{"b":[1]}],"metadata":{"x":"]"}}';
    for (let length = 0; length < text.length; length += 1) {
      assert.throws(() => split(text.slice(0, length)), SyntaxError);
    }
  });

  it("throws only syntax and range errors for random text", () => {
    const nonsense = fc.string({ unit: fc.constantFrom(...'{}[],:"\\ items1') });
    fc.assert(
      fc.property(nonsense, (text) => {
        try {
          split(`{"items":${text}`);
        } catch (error) {
          assert.ok(error instanceof SyntaxError || error instanceof RangeError);
        }
      }),
      { numRuns: 1000 },
    );
  });

  it("rejects an item beyond the limit, without buffering it", () => {
    const splitter = new ListSplitter(1000);
    const push = (text: string): readonly unknown[] => [...splitter.push(Buffer.from(text))];
    assert.deepEqual(push('{"items":[{"a":1},'), [{ a: 1 }]);
    assert.throws(() => push(`{"b":"${"x".repeat(1000)}`), RangeError);
  });
});
