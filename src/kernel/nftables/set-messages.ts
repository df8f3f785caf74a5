/** Messages about sets and their elements. linux/netfilter/nf_tables.h. */
import { errno } from "../../base/errno.ts";
import type { IpFamily } from "../../base/ip.ts";
import { bytes, NESTED_BIT, text, u32be } from "../../netlink/attribute-field.ts";
import { attributeSet, list, nested, writeAttribute } from "../../netlink/attribute-set.ts";
import type { Message, MessageWriter } from "../../netlink/message.ts";
import { skipNetfilterHeader } from "../../netlink/netfilter.ts";
import { messageFlags } from "../../netlink/netlink-package.ts";
import type { IpSet, IpSetType } from "../../state/ip-set.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import type { EntryChange } from "../kernel.ts";
import { familyWords, type NftMessage, tableName } from "./message.ts";
import { type Element, elementsOf, type KeyShape, keyShapeOf, setTypeOf } from "./set-keys.ts";

/** A set in one of our tables. */
export interface NftSet {
  readonly family: IpFamily;
  readonly name: string;
}

/** NFTA_SET_*. */
const setAttributes = attributeSet({
  table: text(1),
  name: text(2),
  flags: u32be(3),
  keyType: u32be(4),
  keyLength: u32be(5),
  id: u32be(10),
  userData: bytes(13),
});

/** NFTNL_UDATA_SET_COMMENT and NFTNL_UDATA_SET_ELEM_COMMENT. */
const [setComment, elementComment] = [7, 0];

/** A comment with type and length, as `nft` writes and prints it. `text` has at most 254 bytes. */
function commentBytes(type: number, text: string): Buffer {
  const value = Buffer.from(`${text}\0`);
  return Buffer.concat([Uint8Array.of(type, value.length), value]);
}

const intervalComment = commentBytes(
  setComment,
  "bytes of address, protocol, port and source network",
);

/** NFT_SET_INTERVAL. */
const intervalFlag = 4;

/** NFTA_DATA_VALUE. */
const dataAttributes = attributeSet({ value: bytes(1) });
/** NFTA_SET_ELEM_*. */
const elementFields = {
  key: nested(1, dataAttributes),
  flags: u32be(3),
  userData: bytes(6),
};
const elementAttributes = attributeSet(elementFields);
/** NFT_SET_ELEM_INTERVAL_END and NFT_SET_ELEM_CATCHALL. */
const [endFlag, catchAllFlag] = [1, 2];

const listFields = { table: text(1), set: text(2) };
/** NFTA_SET_ELEM_LIST_*. */
const elementsAttributes = attributeSet({
  ...listFields,
  elements: list(3, nested(1, elementAttributes)),
});
const countAttributes = attributeSet({ elements: list(3, bytes(1)) });

/**
 * The largest entry, an IPv6 network with a comment, takes 344 bytes, and a message's elements share one attribute with
 * a 16-bit length.
 */
export const entriesPerMessage = 190;

const meanings: Readonly<Record<number, string>> = {
  [errno.ENOENT]: "the set does not exist",
  [errno.EEXIST]:
    "a set with this name but a different type or family exists; destroy or rename it",
  [errno.EBUSY]: "a rule references the set; remove that rule first",
  [errno.EOPNOTSUPP]: "the kernel does not support this kind of set",
};

function setMessage(
  command: NftMessage["command"],
  { family, name }: NftSet,
  operation: string,
): Omit<NftMessage, "write"> {
  return { command, family, operation, subject: `${familyWords[family]} ${name}`, meanings };
}

export function createSet(set: IpSet): NftMessage {
  const shape = keyShapeOf(set.type, set.family);
  return {
    ...setMessage("newSet", set, "create set"),
    flags: messageFlags.create | messageFlags.exclusive,
    write: (writer) =>
      setAttributes.encode(writer, {
        table: tableName,
        name: set.name,
        flags: shape.isInterval ? intervalFlag : 0,
        keyType: shape.keyType,
        keyLength: shape.keyLength,
        ...(shape.isInterval ? { userData: intervalComment } : {}),
        // Must be unique within a transaction, and is only used there.
        id: 1,
      }),
  };
}

export function deleteSet(set: NftSet): NftMessage {
  return {
    ...setMessage("deleteSet", set, "destroy set"),
    write: (writer) => setAttributes.encode(writer, { table: tableName, name: set.name }),
  };
}

/** Creates the dump request for all sets of a family. */
export function listSets(family: IpFamily): NftMessage {
  return {
    ...setMessage("getSet", { family, name: tableName }, "list sets of table"),
    write: (writer) => setAttributes.encode(writer, { table: tableName }),
  };
}

export interface SetHeader extends NftSet, KeyShape {
  /** Undefined if the set is not one of ours. */
  readonly type: IpSetType | undefined;
}

export function decodeSet(family: IpFamily, { body }: Message): SetHeader {
  skipNetfilterHeader(body);
  const { name = "", flags = 0, keyType = 0, keyLength = 0 } = setAttributes.decode(body);
  const shape = { keyType, keyLength, isInterval: flags === intervalFlag };
  const isKnown = flags === 0 || shape.isInterval;
  return { family, name, ...shape, type: isKnown ? setTypeOf(shape, family) : undefined };
}

/** Creates the dump request for one set's elements. */
export function listElements(set: NftSet): NftMessage {
  return {
    ...setMessage("getElements", set, "list set"),
    write: (writer) => elementsAttributes.encode(writer, { table: tableName, set: set.name }),
  };
}

export function decodeElements({ body }: Pick<Message, "body">): readonly Element[] {
  skipNetfilterHeader(body);
  return (elementsAttributes.decode(body).elements ?? []).map(({ key, flags }) => ({
    key: key?.value ?? new Uint8Array(),
    ...(flags === endFlag ? { isEnd: true } : {}),
  }));
}

export function countElements({ body }: Pick<Message, "body">): number {
  skipNetfilterHeader(body);
  return countAttributes.decode(body).elements?.length ?? 0;
}

/**
 * Adds or removes at most {@link entriesPerMessage} entries. `entriesText` names them in an error. Keys are computed
 * when the message is written, because keeping the keys of all entries would double the memory that a first sync needs.
 */
export function changeElements(
  kind: "entry-add" | "entry-remove",
  set: IpSet,
  entries: readonly Pick<EntryChange, "entry" | "comment">[],
  entriesText: string,
): NftMessage {
  const isAdded = kind === "entry-add";
  const command = isAdded ? "newElements" : "deleteElements";
  const message = setMessage(command, set, isAdded ? "add to set" : "remove from set");
  return {
    ...message,
    subject: `${message.subject}: ${entriesText}`,
    ...(isAdded ? { flags: messageFlags.create } : {}),
    write(writer) {
      elementsAttributes.encode(writer, { table: tableName, set: set.name });
      const start = writer.beginAttribute(3 | NESTED_BIT);
      for (const { entry, comment } of entries) {
        const elements = elementsOf(set.type, set.family, entry);
        for (const element of elements) {
          writeElement(writer, element, element.isEnd ? undefined : commentOf(set, entry, comment));
        }
      }
      writer.endAttribute(start);
    },
  };
}

/** Writes without intermediate objects, because a first sync writes tens of thousands of elements. */
function writeElement(
  writer: MessageWriter,
  { key, isEnd }: Element,
  comment: string | undefined,
): void {
  const start = writer.beginAttribute(1 | NESTED_BIT);
  if (key.length === 0) writeAttribute(writer, elementFields.flags, catchAllFlag);
  else writeAttribute(writer, elementFields.key, { value: key });
  if (isEnd) writeAttribute(writer, elementFields.flags, endFlag);
  if (comment !== undefined) {
    writeAttribute(writer, elementFields.userData, commentBytes(elementComment, comment));
  }
  writer.endAttribute(start);
}

/**
 * A valid namespace and name have at most 127 characters. `nft list` prints the keys of networks as bytes, so their
 * comments repeat the entry.
 */
function commentOf(
  { type }: IpSet,
  entry: SetEntry,
  comment: string | undefined,
): string | undefined {
  const text = comment?.slice(0, 127);
  if (type !== "hash:ip,port,net" || text === undefined) return text;
  return `${entry.replaceAll(",", " ")} ${text}`;
}
