/** Prints every netlink message for debugging. Disabled by default. */

import { hexText } from "./attribute-field.ts";
import type { ByteReader } from "./byte-reader.ts";
import { type Message, messagesOf } from "./message.ts";

/** Receives one line per message. */
export type DebugSink = (line: string) => void;

/** Formats the part of a message after the netlink header, usually with the attribute tables of its codec. */
export type BodyPrinter = (type: number, body: ByteReader) => string;

/**
 * Writes to standard error if KUBE_IPVS_DEBUG_NETLINK=1. Otherwise undefined, and nothing is formatted or printed.
 */
export function debugSinkOf(environment: NodeJS.ProcessEnv): DebugSink | undefined {
  if (environment["KUBE_IPVS_DEBUG_NETLINK"] !== "1") return undefined;
  return (line) => void process.stderr.write(`${line}\n`);
}

/**
 * Prints each message of a datagram. Bytes that cannot be decoded are printed as hex; this function does not throw.
 */
export function printDatagram(
  sink: DebugSink,
  direction: "sent" | "received",
  bytes: Uint8Array,
  printBody: BodyPrinter = printHex,
): void {
  try {
    for (const message of messagesOf(bytes)) {
      sink(`netlink ${direction} ${messageText(message, printBody)}`);
    }
  } catch (error) {
    sink(`netlink ${direction} unreadable (${String(error)}): ${hexText(bytes)}`);
  }
}

function messageText({ type, flags, sequence, body }: Message, printBody: BodyPrinter): string {
  const length = body.remaining;
  const head = `type=${type} flags=0x${flags.toString(16)} sequence=${sequence} bytes=${length}`;
  return `${head} ${printBody(type, body)}`;
}

function printHex(_type: number, body: ByteReader): string {
  return hexText(body.bytes(body.remaining, "body"));
}
