/** Bytes from the kernel: recorded datagrams, mutated ones, and random bytes. */
import fc from "fast-check";
import { decodeFlow } from "../../../src/kernel/conntrack/codec.ts";
import { entryText, entryValues } from "../../../src/kernel/ipset/entry.ts";
import { decodeListing, rejectedPosition } from "../../../src/kernel/ipset/requests.ts";
import { decodeRealServer, decodeService, decodeTimeouts } from "../../../src/kernel/ipvs/codec.ts";
import { decodeAddress, decodeLink } from "../../../src/kernel/link/codec.ts";
import { decodeGateways } from "../../../src/kernel/link/route-messages.ts";
import { DecodeError, NetlinkError } from "../../../src/netlink/errors.ts";
import { readGenericHeader } from "../../../src/netlink/generic.ts";
import { type Message, messagesOf } from "../../../src/netlink/message.ts";
import { decodeFamily } from "../../../src/netlink/netlink-package.ts";
import { readReply } from "../../../src/netlink/reply.ts";
import type { IpSetType } from "../../../src/state/ip-set.ts";
import { readCaptures } from "../../captures/captures.ts";
import { readCorpus } from "../corpus.ts";
import { mutatedBytes } from "../mutations.ts";
import { type FuzzTarget, type Verdict, verdictOf } from "../target.ts";

const setTypes: readonly IpSetType[] = [
  ...(["hash:ip", "hash:ip,port", "hash:ip,port,ip", "hash:ip,port,net", "bitmap:port"] as const),
];

type Decode = (message: Message) => unknown;

/** Returns a copy, because a body is read once and each decoder needs its own reader. */
function again(bytes: Uint8Array): Uint8Array {
  return bytes.slice();
}

function isRefusal(error: unknown): boolean {
  return error instanceof DecodeError || error instanceof NetlinkError;
}

function targetOf(
  name: string,
  captures: readonly string[],
  decoders: readonly Decode[],
): FuzzTarget<Uint8Array> {
  const kept = [
    ...captures.flatMap((file) =>
      readCaptures(file).flatMap(({ datagrams }) => datagrams.map(({ bytes }) => bytes)),
    ),
    ...readCorpus(name),
  ];
  decoders.forEach((decode, index) => {
    if (!kept.some((bytes) => takesOne(bytes, decode))) {
      throw new Error(`${name}: decoder ${index + 1} accepts no recorded message`);
    }
  });
  return {
    name,
    isDecoder: true,
    kept,
    inputs: fc.oneof(
      { weight: 9, arbitrary: mutatedBytes(kept) },
      { weight: 1, arbitrary: fc.uint8Array({ maxLength: 200 }) },
    ),
    run: (bytes) => verdicts(bytes, decoders),
  };
}

/** Every decoder must accept at least one recorded message; otherwise, mutated messages would not test it. */
function takesOne(bytes: Uint8Array, decode: Decode): boolean {
  const taken = (message: Message): boolean =>
    verdictOf(() => decode(message), isRefusal) === "taken";
  let isTaken = false;
  verdictOf(() => {
    for (const message of messagesOf(again(bytes))) isTaken ||= taken(message);
  }, isRefusal);
  return isTaken;
}

/** The input is accepted if one of the decoders reads all of it. */
function verdicts(bytes: Uint8Array, decoders: readonly Decode[]): Verdict {
  let verdict: Verdict = "refused";
  for (const decode of decoders) {
    const one = verdictOf(() => {
      for (const message of messagesOf(again(bytes))) decode(message);
    }, isRefusal);
    if (one === "taken") verdict = "taken";
  }
  return verdict;
}

function replyTarget(): FuzzTarget<Uint8Array> {
  const base = targetOf("netlink-messages", ["ipvs", "ipset", "link", "conntrack"], []);
  return {
    ...base,
    run: (bytes) =>
      verdictOf(() => {
        const sequence =
          bytes.length < 12 ? 0 : new DataView(bytes.buffer, bytes.byteOffset).getUint32(8, true);
        const { outcome } = readReply(bytes, sequence, ({ body }) => body.remaining);
        rejectedPosition(outcome.echo);
      }, isRefusal),
  };
}

/** Listed entries must be encodable again, because entries are removed by their text. */
function readEntries(message: Message): void {
  const { entries = [] } = decodeListing(message);
  for (const values of entries) {
    for (const type of setTypes) {
      verdictOf(() => {
        const text = entryText(type, values);
        if (entryText(type, entryValues(type, text)) !== text)
          throw new TypeError(`not again ${text}`);
      }, isRefusal);
    }
  }
}

export const targets: readonly FuzzTarget<Uint8Array>[] = [
  replyTarget(),
  targetOf(
    "netlink-ipvs",
    ["ipvs"],
    [
      ({ body }) => decodeService(body),
      ({ body }) => decodeRealServer(body, "IPv4"),
      ({ body }) => decodeRealServer(body, "IPv6"),
      ({ body }) => decodeTimeouts(body),
      ({ body }) => {
        readGenericHeader(body);
        return decodeFamily(body.bytes(body.remaining, "family"));
      },
    ],
  ),
  targetOf(
    "netlink-ipset",
    ["ipset"],
    [readEntries, ({ body }) => rejectedPosition(body.bytes(body.remaining, "echo"))],
  ),
  targetOf("netlink-link", ["link"], [decodeLink, decodeAddress, decodeGateways]),
  targetOf("netlink-conntrack", ["conntrack", "conntrack-zones"], [({ body }) => decodeFlow(body)]),
];
