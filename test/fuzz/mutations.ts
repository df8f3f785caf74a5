/** Mutations of saved inputs: bytes, texts and trees. */
import fc from "fast-check";

/** Boundary values of widths, signs and lengths. */
const edges = [0, 1, 2, 3, 4, 7, 8, 15, 16, 0x20, 0x3f, 0x7f, 0x80, 0xfe, 0xff] as const;

type Edit = readonly [kind: number, place: number, value: number];

const edits: fc.Arbitrary<readonly Edit[]> = fc.array(
  fc.tuple(fc.nat(6), fc.nat(), fc.oneof(fc.constantFrom(...edges), fc.nat(255))),
  { minLength: 1, maxLength: 8 },
);

/** Bytes of `kept` with changed bits, bytes, pieces and lengths. */
export function mutatedBytes(kept: readonly Uint8Array[]): fc.Arbitrary<Uint8Array> {
  return fc.tuple(fc.constantFrom(...kept), edits).map(([bytes, list]) => {
    let changed = Buffer.from(bytes);
    for (const edit of list) changed = edited(changed, edit);
    return new Uint8Array(changed);
  });
}

function edited(bytes: Buffer, [kind, place, value]: Edit): Buffer<ArrayBuffer> {
  const copy = Buffer.from(bytes);
  if (copy.length === 0) return copy;
  const at = place % copy.length;
  switch (kind) {
    case 0:
      copy[at] = value;
      return copy;
    case 1:
      copy[at] = (copy[at] ?? 0) ^ (1 << (value & 7));
      return copy;
    case 2:
      return copy.subarray(0, at);
    case 3:
      return Buffer.concat([copy.subarray(0, at), copy.subarray(at + (value % 16))]);
    case 4:
      return Buffer.concat([
        copy.subarray(0, at),
        Buffer.alloc(value % 32, value),
        copy.subarray(at),
      ]);
    case 5:
      // Lengths and types of attributes are at multiples of four.
      copy[at & ~3] = value;
      return copy;
    default:
      return Buffer.concat([copy, copy.subarray(at, at + 64)]);
  }
}

/** Texts that attackers use in text fields. */
export const nastyTexts: readonly string[] = [
  "",
  " ",
  "\n",
  "\0",
  "a\nCOMMIT\n*filter\n-A INPUT -j ACCEPT",
  'x" -j ACCEPT\n',
  "-j DROP",
  "; rm -rf /",
  "$(reboot)",
  "../../etc/passwd",
  "__proto__",
  "constructor",
  "toString",
  "hasOwnProperty",
  "\u202e",
  "\ufeffa",
  "а", // Cyrillic
  "１０.９６.０.１", // full-width digits
  "10.96.0.1\u200b",
  "\ud800",
  "😀",
  "None",
  "NaN",
  "Infinity",
  "-0",
  "0x50",
  "010.096.000.001",
  "10.96.0.010",
  "::ffff:10.96.0.1",
  "::ffff:0:0/96",
  "fe80::1%eth0",
  "0.0.0.0",
  "255.255.255.255",
  "127.0.0.1",
  "::1",
  "::",
  "224.0.0.1",
  "10.96.0.1/33",
  "0.0.0.0/0",
  "10.96.0.1/-1",
  "80",
  "65536",
  "1e3",
  "2026-13-45T99:99:99Z",
  "x".repeat(300),
  "é".repeat(64),
];

/**
 * Any code point except surrogates: like `unit: "binary"`, but without its table of a million code points, which costs
 * each process two seconds.
 */
const codePoint: fc.Arbitrary<string> = fc
  .nat({ max: 0x10_f7ff })
  .map((index) => String.fromCodePoint(index < 0xd800 ? index : index + 0x800), indexOfCodePoint);

/** Throws if the text is not one code point. fast-check uses this to select special texts of its own that are valid. */
function indexOfCodePoint(text: unknown): number {
  const point = typeof text === "string" && text.isWellFormed() ? text.codePointAt(0) : undefined;
  if (point === undefined || String.fromCodePoint(point) !== text) throw new Error("no code point");
  return point < 0xd800 ? point : point - 0x800;
}

/** Values of other types, limits of numbers, and texts with a special meaning. */
export const nastyValues: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom<unknown>(...nastyTexts, ...nastyConstants()) },
  { weight: 1, arbitrary: fc.string({ unit: codePoint, maxLength: 40 }) },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }) },
);

function nastyConstants(): readonly unknown[] {
  return [
    ...[null, true, false, 0, -0, -1, 1, 79.5, 1e308, 65_535, 65_536, 2 ** 31, 2 ** 53, [], {}],
    ...[[[]], [null], { "": "" }, [[], {}], { __proto__: null }, deepTree(200)],
  ];
}

function deepTree(depth: number): unknown {
  let tree: unknown = "leaf";
  for (let level = 0; level < depth; level += 1) tree = level % 2 === 0 ? [tree] : { a: tree };
  return tree;
}

type TreeEdit = readonly [path: number, kind: number, value: unknown];

const treeEdits: fc.Arbitrary<readonly TreeEdit[]> = fc.array(
  fc.tuple(fc.nat(), fc.nat(4), nastyValues),
  { minLength: 1, maxLength: 4 },
);

/** JSON trees of `kept` in which any part is replaced, removed or duplicated, or gets a neighbor. */
export function mutatedTrees(kept: readonly unknown[]): fc.Arbitrary<unknown> {
  return fc.tuple(fc.constantFrom(...kept), treeEdits).map(([tree, list]) => {
    let changed = structuredClone(tree);
    for (const [path, kind, value] of list) {
      // A copy, because the value may be a constant, and later edits change it.
      changed = editedTree(changed, [path, kind, structuredClone(value)]);
    }
    return changed;
  });
}

interface Place {
  readonly parent: Record<string, unknown> | unknown[];
  readonly key: string;
}

function editedTree(tree: unknown, [path, kind, value]: TreeEdit): unknown {
  const places = placesIn(tree);
  const place = places[path % Math.max(places.length, 1)];
  if (place === undefined) return value;
  const { parent, key } = place as { parent: Record<string, unknown>; key: string };
  switch (kind) {
    case 0:
      if (Array.isArray(parent)) parent.splice(Number(key), 1);
      else delete parent[key];
      return tree;
    case 1:
      if (Array.isArray(parent)) parent.push(...parent.slice(0, 100), parent[Number(key)]);
      else define(parent, `${key} `, parent[key]);
      return tree;
    case 2:
      define(parent, typeof value === "string" ? value : "__proto__", value);
      return tree;
    default:
      define(parent, key, value);
      return tree;
  }
}

/** Sets a key as JSON.parse does: `__proto__` is an ordinary key. */
function define(parent: object, key: string, value: unknown): void {
  if (Array.isArray(parent) && !/^\d+$/.test(key)) return;
  Object.defineProperty(parent, key, {
    value,
    writable: true,
    enumerable: true,
    configurable: true,
  });
}

function placesIn(tree: unknown): readonly Place[] {
  if (typeof tree !== "object" || tree === null) return [];
  const parent = tree as Record<string, unknown>;
  return Object.keys(parent).flatMap((key) => [{ parent, key }, ...placesIn(parent[key])]);
}

/** Texts of `kept` with changed characters and lines. */
export function mutatedTexts(kept: readonly string[]): fc.Arbitrary<string> {
  const bytes = mutatedBytes(kept.map((text) => new TextEncoder().encode(text)));
  const spliced = fc
    .tuple(fc.constantFrom(...kept), fc.nat(), fc.constantFrom(...nastyTexts))
    .map(([text, place, nasty]) => {
      const at = place % (text.length + 1);
      return text.slice(0, at) + nasty + text.slice(at);
    });
  const lines = fc
    .tuple(fc.constantFrom(...kept), fc.array(fc.nat(), { minLength: 1, maxLength: 4 }))
    .map(([text, places]) => movedLines(text, places));
  return fc.oneof(
    bytes.map((changed) => new TextDecoder().decode(changed)),
    spliced,
    lines,
  );
}

/** Duplicates, removes and swaps lines. */
function movedLines(text: string, places: readonly number[]): string {
  const lines = text.split("\n");
  for (const place of places) {
    const at = place % Math.max(lines.length, 1);
    if (place % 3 === 0) lines.splice(at, 1);
    else if (place % 3 === 1) lines.splice(at, 0, lines[at] ?? "");
    else lines.push(...lines.splice(at, 1));
  }
  return lines.join("\n");
}
