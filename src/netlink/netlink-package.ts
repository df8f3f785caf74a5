/**
 * The only file that uses the npm package `netlink`: constants and codecs, each imported from a separate file. The
 * package's index must never be imported, because it loads a socket addon that aborts the process on ENOBUFS. See
 * docs/decisions/0001-netlink-package.md.
 */
import {
  FlagsAck,
  FlagsGet,
  FlagsNew,
  Flags as MessageFlags,
  MessageType,
  Protocol,
} from "netlink/dist/constants.js";
import {
  Commands as ControlCommands,
  parseMessage as parseControlMessage,
} from "netlink/dist/genl/structs.js";
import { DecodeError } from "./errors.ts";

/** The netlink protocols that kube-ipvs opens sockets for (linux/netlink.h, NETLINK_*). */
export const protocols: Readonly<Record<"route" | "netfilter" | "generic", number>> = {
  route: Protocol.ROUTE,
  netfilter: Protocol.NETFILTER,
  generic: Protocol.GENERIC,
};

type MessageFlag =
  | "request"
  | "acknowledge"
  | "dumpInterrupted"
  | "dump"
  | "exclusive"
  | "create"
  | "append"
  /** In an error reply: the kernel did not echo the request. */
  | "capped"
  /** In an error reply: attributes with the kernel's error message follow. */
  | "acknowledgeAttributes";

/** NLM_F_*, linux/netlink.h. Some numbers mean different things in requests and in replies. */
export const messageFlags: Readonly<Record<MessageFlag, number>> = {
  request: MessageFlags.REQUEST,
  acknowledge: MessageFlags.ACK,
  dumpInterrupted: MessageFlags.DUMP_INTR,
  dump: FlagsGet.DUMP,
  exclusive: FlagsNew.EXCL,
  create: FlagsNew.CREATE,
  append: FlagsNew.APPEND,
  capped: FlagsAck.CAPPED,
  acknowledgeAttributes: FlagsAck.ACK_TLVS,
};

/** NLMSG_*, linux/netlink.h. */
export const messageTypes: Readonly<Record<"noop" | "error" | "done" | "overrun", number>> = {
  noop: MessageType.NOOP,
  error: MessageType.ERROR,
  done: MessageType.DONE,
  overrun: MessageType.OVERRUN,
};

/** CTRL_CMD_GETFAMILY, linux/genetlink.h. */
export const getFamilyCommand: number = ControlCommands.GET_FAMILY;

/** The ID and name in a CTRL_CMD_NEWFAMILY reply. `bytes` starts after the generic netlink header. */
export function decodeFamily(bytes: Uint8Array): { readonly id: number; readonly name: string } {
  const { familyId, familyName } = parseFamily(bytes);
  if (familyId === undefined || familyName === undefined) {
    throw new DecodeError("generic netlink family without id or name", 0);
  }
  return { id: familyId, name: familyName };
}

/** Adapts the package's parser, which takes Buffers and throws plain errors. */
function parseFamily(bytes: Uint8Array): ReturnType<typeof parseControlMessage> {
  try {
    return parseControlMessage(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
  } catch (cause) {
    throw new DecodeError(`generic netlink family: ${String(cause)}`, 0);
  }
}
