import { hash } from "node:crypto";

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const hashLength = 16;

/** The first 16 characters of the text's SHA-256 in base 32 (RFC 4648), which encodes five bits per character. */
export function nameHash(text: string): string {
  const digest = hash("sha256", text, "buffer");
  let ending = "";
  for (let at = 0; at < hashLength; at += 1) {
    const bit = at * 5;
    const window = digest.readUInt16BE(bit >> 3);
    ending += alphabet[(window >> (11 - (bit & 7))) & 31];
  }
  return ending;
}
