import { randomInt } from "node:crypto";

/** Drawn at each start: nobody can prepare two contents that look alike here. */
const firstStart: number = randomInt(2 ** 32);
const secondStart: number = randomInt(2 ** 32);
/** Of FNV-1a and MurmurHash3; after each word a step lets the high bits reach the low ones. */
const firstPrime = 0x01000193;
const secondPrime = 0x85ebca6b;

/**
 * 53 bits that stand for these bytes, and for `seed`, as long as the process lives. Fast, and good enough to see
 * that something came again; no proof against somebody who can see the result.
 */
export function hashOfBytes(bytes: DataView, start: number, end: number, seed = 0): number {
  let first = Math.imul(seed ^ firstStart, firstPrime) ^ (end - start);
  let second = first ^ secondStart;
  let at = start;
  for (; at + 4 <= end; at += 4) {
    const word = bytes.getUint32(at);
    first = Math.imul(first ^ word, firstPrime);
    first ^= first >>> 15;
    second = Math.imul(((second << 13) | (second >>> 19)) ^ word, secondPrime);
  }
  for (; at < end; at += 1) {
    const byte = bytes.getUint8(at);
    first = Math.imul(first ^ byte, firstPrime);
    second = Math.imul(((second << 13) | (second >>> 19)) ^ byte, secondPrime);
  }
  return (first >>> 0) * 2 ** 21 + (second >>> 11);
}
