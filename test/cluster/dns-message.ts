/** Answers to DNS queries (RFC 1035) from a table of records, in wire format. */
import { isIP } from "node:net";

/**
 * For each lower-case name, its addresses or the name to which queries are redirected. A name may exist without
 * addresses.
 */
export type Records = ReadonlyMap<string, readonly string[]>;

const types = { a: 1, cname: 5, aaaa: 28 } as const;
interface Answer {
  readonly type: number;
  readonly data: Buffer;
}

const groupCount = 8;
const headerBytes = 12;
const internetClass = 1;
const secondsToLive = 5;
/** Flags of an authoritative response: QR, AA, RD and RA. */
const responseFlags = 0x8580;
const nameError = 3;

export function answerTo(query: Buffer, records: Records): Buffer {
  const { name, end } = readName(query);
  const type = query.readUInt16BE(end);
  const found = records.get(name);
  const answers = (found ?? []).flatMap((value) => {
    const answer = answerOf(value);
    return answer.type === type || answer.type === types.cname ? [record(answer)] : [];
  });
  const header = Buffer.alloc(headerBytes);
  query.copy(header, 0, 0, 2);
  header.writeUInt16BE(responseFlags | (found === undefined ? nameError : 0), 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(answers.length, 6);
  return Buffer.concat([header, query.subarray(headerBytes, end + 4), ...answers]);
}

function answerOf(value: string): Answer {
  switch (isIP(value)) {
    case 4:
      return { type: types.a, data: Buffer.from(value.split(".").map(Number)) };
    case 6:
      return { type: types.aaaa, data: addressBytes(value) };
    default:
      return { type: types.cname, data: wireName(value) };
  }
}

/** Replaces `::` with zero groups. Kubernetes never writes an IPv4 address in an IPv6 address. */
function addressBytes(address: string): Buffer {
  const [before = [], after = []] = address
    .split("::")
    .map((part) => part.split(":").filter((group) => group !== ""));
  const zeros = Array.from({ length: groupCount - before.length - after.length }, () => "0");
  const groups = [...before, ...zeros, ...after];
  return Buffer.from(groups.map((group) => group.padStart(4, "0")).join(""), "hex");
}

function readName(query: Buffer): { readonly name: string; readonly end: number } {
  const labels: string[] = [];
  let at = headerBytes;
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join(".").toLowerCase(), end: at + 1 };
}

function wireName(name: string): Buffer {
  const labels = name.replace(/\.$/, "").split(".");
  return Buffer.concat([
    ...labels.flatMap((label) => [Buffer.from([label.length]), Buffer.from(label)]),
    Buffer.from([0]),
  ]);
}

/** The name is a pointer to the name in the question. */
function record({ type, data }: Answer): Buffer {
  const head = Buffer.alloc(headerBytes);
  head.writeUInt16BE(0xc000 | headerBytes, 0);
  head.writeUInt16BE(type, 2);
  head.writeUInt16BE(internetClass, 4);
  head.writeUInt32BE(secondsToLive, 6);
  head.writeUInt16BE(data.length, 10);
  return Buffer.concat([head, data]);
}
