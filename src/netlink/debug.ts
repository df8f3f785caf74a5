/** Printing of every message, for people who look for a fault. Off unless asked for. */

import { hexText } from "./attribute-field.ts";
import type { ByteReader } from "./byte-reader.ts";
import { type Message, messagesOf } from "./message.ts";

/** Takes one line per message. */
export type DebugSink = (line: string) => void;

/** Prints the part of a message behind the netlink header: usually with the tables of its codec. */
export type BodyPrinter = (type: number, body: ByteReader) => string;

/** Standard error when KUBE_IPVS_DEBUG_NETLINK=1, else undefined: then nothing is printed or prepared. */
export function debugSinkOf(environment: NodeJS.ProcessEnv): DebugSink | undefined {
  if (environment["KUBE_IPVS_DEBUG_NETLINK"] !== "1") return undefined;
  return (line) => void process.stderr.write(`${line}\n`);
}

/** Prints each message of a datagram; what cannot be read is printed as bytes, never thrown. */
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
