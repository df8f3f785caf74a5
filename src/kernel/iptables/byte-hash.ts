import { randomInt } from "node:crypto";

/** Drawn at each start: nobody can prepare two contents that look alike here. */
const firstStart: number = randomInt(2 ** 32);
const secondStart: number = randomInt(2 ** 32);
/** Of FNV-1a and MurmurHash3; after each word a step lets the high bits reach the low ones. */
const firstPrime = 0x01000193;
const secondPrime = 0x85ebca6b;

/**
 * 53 bits that stand for stretches of bytes, and for a seed, as long as the process lives. Fast, and good enough to
 * see that something came again; no proof against someone who can see the result. One object serves for many.
 */
export class ByteHash {
  #first = 0;
  #second = 0;

  start(seed = 0): void {
    this.#first = Math.imul(seed ^ firstStart, firstPrime);
    this.#second = this.#first ^ secondStart;
  }

  add(bytes: DataView, start: number, end: number): void {
    let first = this.#first ^ (end - start);
    let second = this.#second ^ (end - start);
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
    this.#first = first;
    this.#second = second;
  }

  get value(): number {
    return (this.#first >>> 0) * 2 ** 21 + (this.#second >>> 11);
  }
}
