/** Requests about sets as netlink messages, and the replies to listings. */
import { ByteReader } from "../../netlink/byte-reader.ts";
import type { Description } from "../../netlink/errors.ts";
import type { Message } from "../../netlink/message.ts";
import {
  addressFamilies,
  skipNetfilterHeader,
  writeNetfilterHeader,
} from "../../netlink/netfilter.ts";
import { messageFlags } from "../../netlink/netlink-package.ts";
import type { RequestKind } from "../../netlink/request.ts";
import type { IpSet } from "../../state/ip-set.ts";
import { type CommandValues, commandAttributes, type EntryValues } from "./attributes.ts";
import {
  type Command,
  initialHashSize,
  listHeaderFlag,
  messageType,
  protocolVersion,
  revisions,
} from "./constants.ts";
import { entryText } from "./entry.ts";
import { ipSetErrorWords } from "./errors.ts";

export type SetRequest =
  /** A new set, or also one that is there with the same parameters. */
  | { readonly command: "create"; readonly set: IpSet; readonly mustBeNew: boolean }
  | { readonly command: "destroy"; readonly name: string }
  | { readonly command: "swap"; readonly first: string; readonly second: string }
  /** Of one set with its entries; without a set, the parameters of all. */
  | { readonly command: "list"; readonly set?: IpSet }
  | {
      readonly command: "add" | "remove";
      readonly set: IpSet;
      /** At most `maxEntriesPerMessage`. */
      readonly entries: readonly EntryValues[];
    };

/**
 * IPSET_FLAG_EXIST is the absence of NLM_F_EXCL: so adding what is there, removing what is not and
 * creating what is there with the same parameters succeed.
 */
export const setRequestKind: RequestKind<SetRequest> = {
  type: ({ command }) => messageType(command),
  flags: (request) => (request.command === "create" ? createFlags(request.mustBeNew) : 0),
  encode(writer, request) {
    // The family of all sets is AF_INET here.
    writeNetfilterHeader(writer, addressFamilies.IPv4);
    commandAttributes.encode(writer, { protocolVersion, ...commandValues(request) });
  },
  describe: describeRequest,
};

function createFlags(mustBeNew: boolean): number {
  return mustBeNew ? messageFlags.create | messageFlags.exclusive : messageFlags.create;
}

function commandValues(request: SetRequest): CommandValues {
  switch (request.command) {
    case "create":
      return createValues(request.set);
    case "destroy":
      return { name: request.name };
    case "swap":
      return { name: request.first, typeName: request.second };
    case "list":
      return request.set === undefined ? { flags: listHeaderFlag } : { name: request.set.name };
    case "add":
    case "remove":
      return {
        name: request.set.name,
        // The kernel overwrites it, in the echo of a refused message, by that of the refused entry.
        lineNumber: 0,
        entries: request.entries,
      };
  }
}

function createValues({ name, type, family, maxElements }: IpSet): CommandValues {
  const header = { name, typeName: type, revision: revisions[type] };
  if (type === "bitmap:port") {
    return { ...header, family: 0, parameters: { firstPort: 0, lastPort: 65_535 } };
  }
  const parameters = { hashSize: initialHashSize, maxElements };
  return { ...header, family: addressFamilies[family], parameters };
}

const operations: Readonly<Record<Command, string>> = {
  create: "create set",
  destroy: "destroy set",
  swap: "swap sets",
  list: "list set",
  add: "add to set",
  remove: "remove from set",
};

function describeRequest(request: SetRequest, errno: number): Description {
  const type = "set" in request ? request.set.type : "";
  const operation = operations[request.command];
  const words = ipSetErrorWords(errno, type);
  switch (request.command) {
    case "create":
      return { operation, subject: `${request.set.name} (${request.set.type})`, ...words };
    case "destroy":
      return { operation, subject: request.name, ...words };
    case "swap":
      return { operation, subject: `${request.first} and ${request.second}`, ...words };
    case "list":
      return { operation, subject: request.set?.name ?? "headers", ...words };
    case "add":
    case "remove":
      return { operation, subject: `${request.set.name}: ${entriesText(request)}`, ...words };
  }
}

/** `10.96.0.1,tcp:443`, or the first and how many more. */
function entriesText({
  set,
  entries,
}: SetRequest & { readonly command: "add" | "remove" }): string {
  const [first = {}] = entries;
  const text = entryText(set.type, first);
  return entries.length === 1 ? text : `${text} and ${entries.length - 1} more`;
}

/** Reads one message of a listing. A large set comes in several, of which only the first has parameters. */
export function decodeListing({ body }: Message): CommandValues {
  skipNetfilterHeader(body);
  return commandAttributes.decode(body);
}

/**
 * The position (from 1) of the entry that a message was refused for; undefined when the message was
 * refused as a whole. `echo` is the refused request behind its netlink header.
 */
export function refusedPosition(echo: Uint8Array | undefined): number | undefined {
  if (echo === undefined) return undefined;
  const reader = new ByteReader(echo);
  skipNetfilterHeader(reader);
  const { lineNumber } = commandAttributes.decode(reader);
  return lineNumber === 0 ? undefined : lineNumber;
}

/** For the debug log. */
export function printSetMessage(_type: number, body: ByteReader): string {
  skipNetfilterHeader(body);
  return commandAttributes.print(body);
}
