/**
 * Evaluates the expressions of an nftables rule for a packet. A register stores bytes and a mask of their known bits.
 * If a relevant bit is unknown, the result is "may match". Pure.
 */
import type {
  NftElement,
  NftExpression,
  NftRule,
  NftSet,
  NftVerdict,
} from "../../state/nft-rule.ts";
import {
  isLoopback,
  isOtherLink,
  loadedValue,
  type NftPlace,
  order,
  slice,
  unknown,
  type Value,
} from "./nft-values.ts";

export interface NftMatch {
  /** False if it is unknown whether the rule matches. */
  readonly isCertain: boolean;
  /** `unknown`: the verdict depends on an expression that is not evaluated. Undefined if the next rule is evaluated. */
  readonly verdict?: NftVerdict | { readonly kind: "unknown" };
}

interface Registers extends Value {
  /** Registers that contain a link that is not the loopback link, but is otherwise unknown. */
  readonly notLoopback: Set<number>;
}

/** What the rule does with the packet. Undefined if the rule does not match. */
export function matchNftRule({ expressions }: NftRule, place: NftPlace): NftMatch | undefined {
  const registers: Registers = { ...unknown(96), notLoopback: new Set() };
  let isCertain = true;
  for (const one of expressions) {
    if (one.kind === "verdict") return { isCertain, verdict: one.verdict };
    if (one.kind === "unknown" && one.isEnd) return { isCertain, verdict: { kind: "unknown" } };
    if (one.kind === "lookup" && one.hasVerdict) {
      const set = place.setOf(one.set);
      const found = set && findElement(set, slice(registers, one.register, set.keyLength));
      if (found === undefined) return { isCertain: false, verdict: { kind: "unknown" } };
      if (found === "none") return undefined;
      return { isCertain, verdict: found.verdict ?? { kind: "unknown" } };
    }
    const isMatch = evaluate(one, registers, place);
    if (isMatch === false) return undefined;
    if (isMatch === undefined) isCertain = false;
  }
  return { isCertain };
}

/** Whether the expression matches. Undefined if that is unknown. */
function evaluate(one: NftExpression, registers: Registers, place: NftPlace): boolean | undefined {
  switch (one.kind) {
    case "load":
      store(registers, one.register, loadedValue(one.source, place));
      registers.notLoopback.delete(one.register);
      if (isOtherLink(one.source, place)) registers.notLoopback.add(one.register);
      return true;
    case "mask": {
      const { bytes, mask } = slice(registers, one.from, one.mask.length);
      store(registers, one.register, {
        bytes: bytes.map((byte, at) => (byte & (one.mask[at] ?? 0)) ^ (one.xor[at] ?? 0)),
        // Bits that the mask clears are known.
        mask: mask.map((byte, at) => byte | (~(one.mask[at] ?? 0) & 0xff)),
      });
      return true;
    }
    case "compare":
      if (registers.notLoopback.has(one.register) && isLoopback(one.value)) {
        return one.operator === "!=";
      }
      return compare(slice(registers, one.register, one.value.length), one.operator, one.value);
    case "range": {
      const { bytes, mask } = slice(registers, one.register, one.first.length);
      const [lowest, highest] = boundsOf({ bytes, mask });
      if (order(highest, one.first) < 0 || order(lowest, one.last) > 0) return one.isNegated;
      const isInside = order(lowest, one.first) >= 0 && order(highest, one.last) <= 0;
      return isInside ? !one.isNegated : undefined;
    }
    case "lookup": {
      const set = place.setOf(one.set);
      const found = set && findElement(set, slice(registers, one.register, set.keyLength));
      return found === undefined ? undefined : (found !== "none") !== one.isNegated;
    }
    case "unknown":
      // An unknown expression may write any register.
      registers.mask.fill(0);
      registers.notLoopback.clear();
      return undefined;
    default:
      return true;
  }
}

function compare(
  { bytes, mask }: Value,
  operator: Extract<NftExpression, { kind: "compare" }>["operator"],
  value: Uint8Array,
): boolean | undefined {
  // The values differ if a single known bit differs.
  const differs = value.some((byte, at) => ((byte ^ (bytes[at] ?? 0)) & (mask[at] ?? 0)) !== 0);
  const isEquality = operator === "==" || operator === "!=";
  if (isEquality && differs) return operator === "!=";
  if (!isKnown({ bytes, mask })) return undefined;
  const sign = order(bytes, value);
  return {
    ...{ "==": sign === 0, "!=": sign !== 0, "<": sign < 0, "<=": sign <= 0 },
    ...{ ">": sign > 0, ">=": sign >= 0 },
  }[operator];
}

/** The element that contains the value, or `none` if the set does not contain it. Undefined if that is unknown. */
function findElement(
  { elements, isInterval }: NftSet,
  value: Value,
): NftElement | "none" | undefined {
  if (!isKnown(value)) return undefined;
  const { bytes } = value;
  if (!isInterval) return elements.find(({ key }) => order(key, bytes) === 0) ?? "none";
  const inElement = elements.find(
    ({ key, end }) => end !== undefined && isFieldwiseInside(bytes, key, end),
  );
  if (inElement !== undefined) return inElement;
  // Otherwise, an interval extends from an element to the next element marked as an end.
  let last: NftElement | undefined;
  for (const one of elements) {
    if (one.end !== undefined || order(one.key, bytes) > 0) continue;
    const sign = last === undefined ? 1 : order(one.key, last.key);
    if (sign > 0 || (sign === 0 && !one.isEnd)) last = one;
  }
  return last === undefined || last.isEnd ? "none" : last;
}

/** The fields of a concatenation are compared one by one. Each field occupies whole words of four bytes. */
function isFieldwiseInside(value: Uint8Array, first: Uint8Array, last: Uint8Array): boolean {
  for (let at = 0; at < value.length; at += 4) {
    const word = value.subarray(at, at + 4);
    if (order(word, first.subarray(at, at + 4)) < 0) return false;
    if (order(word, last.subarray(at, at + 4)) > 0) return false;
  }
  return true;
}

/** The lowest and the highest value with these known bits. */
function boundsOf({ bytes, mask }: Value): readonly [Uint8Array, Uint8Array] {
  const known = bytes.map((byte, at) => byte & (mask[at] ?? 0));
  return [known, known.map((byte, at) => byte | (~(mask[at] ?? 0) & 0xff))];
}

function isKnown({ mask }: Value): boolean {
  return mask.every((byte) => byte === 0xff);
}

/** The rest of the last word is zeroed, as in the kernel. */
function store(registers: Value, at: number, { bytes, mask }: Value): void {
  const padded = (bytes.length + 3) & ~3;
  registers.bytes.fill(0, at, at + padded).set(bytes, at);
  registers.mask.fill(0xff, at, at + padded).set(mask, at);
}
