import { parseJson } from "../../base/parse-json.ts";
import { ByteChunks } from "./byte-chunks.ts";

const itemsKey = "items";
const longestKeyBytes = 256;
/** Size limit for a list without its items, normally a few hundred bytes. */
const envelopeLimitBytes = 1024 * 1024;

/** The structural bytes of JSON. All are ASCII, so they never occur within another UTF-8 character. */
const quote = 0x22;
const comma = 0x2c;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/**
 * Splits a list object `{"metadata":{…},"items":[…]}` as it arrives, so a list of many megabytes is never entirely in
 * memory. Keys may be in any order. Throws if the text is not such an object.
 */
export class ListSplitter {
  readonly #item: ByteChunks;
  readonly #envelope = new ByteChunks(envelopeLimitBytes);
  #key: number[] = [];
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #isKeyNext = false;
  #isInKey = false;
  #isInItems = false;
  #isComplete = false;

  constructor(itemLimitBytes: number) {
    this.#item = new ByteChunks(itemLimitBytes);
  }

  /** Yields the items that are complete after this chunk. */
  *push(chunk: Uint8Array): Generator<unknown> {
    let start = 0;
    for (let at = 0; at < chunk.length; at += 1) {
      const byte = chunk[at] as number;
      if (this.#isInString) {
        this.#passString(byte);
        continue;
      }
      if (this.#endsItem(byte)) {
        this.#item.add(chunk.subarray(start, at));
        start = byte === comma ? at + 1 : at;
        const text = this.#item.take();
        if (text.trim() !== "") yield parseJson(text);
      }
      if (this.#passStructure(byte)) {
        this.#envelope.add(chunk.subarray(start, at + 1));
        start = at + 1;
      }
    }
    (this.#isInItems ? this.#item : this.#envelope).add(chunk.subarray(start));
  }

  /** Returns the list object with empty `items`. Throws if the text is incomplete. */
  end(): unknown {
    if (!this.#isComplete) throw new SyntaxError("the list is truncated");
    return parseJson(this.#envelope.take());
  }

  /** Whether the byte ends an item: a comma or the closing bracket, directly inside the items array. */
  #endsItem(byte: number): boolean {
    return this.#isInItems && this.#depth === 2 && (byte === comma || byte === closeBracket);
  }

  #passString(byte: number): void {
    if (this.#isInKey && this.#key.length < longestKeyBytes) this.#key.push(byte);
    if (this.#isEscaped) this.#isEscaped = false;
    else if (byte === backslash) this.#isEscaped = true;
    else if (byte === quote) {
      this.#isInString = false;
      this.#isInKey = false;
    }
  }

  /** Tracks the structure. Returns true if the items array begins after this byte. */
  #passStructure(byte: number): boolean {
    switch (byte) {
      case quote:
        this.#isInString = true;
        if (this.#depth === 1 && this.#isKeyNext) this.#startKey();
        return false;
      case comma:
        this.#isKeyNext ||= this.#depth === 1;
        return false;
      case openBrace:
      case openBracket:
        return this.#open(byte);
      case closeBrace:
      case closeBracket:
        this.#close();
        return false;
      default:
        return false;
    }
  }

  #startKey(): void {
    this.#isKeyNext = false;
    this.#isInKey = true;
    this.#key = [quote];
  }

  #open(byte: number): boolean {
    this.#depth += 1;
    if (this.#depth === 1) this.#isKeyNext = byte === openBrace;
    if (this.#depth !== 2 || byte !== openBracket || !this.#isItemsKey()) return false;
    this.#isInItems = true;
    return true;
  }

  #isItemsKey(): boolean {
    return parseJson(Buffer.from(this.#key).toString("utf8")) === itemsKey;
  }

  #close(): void {
    if (this.#depth === 2) this.#isInItems = false;
    this.#depth -= 1;
    if (this.#depth < 0) throw new SyntaxError("unmatched closing bracket");
    if (this.#depth === 0) this.#isComplete = true;
  }
}
