/** Requests about sets as netlink messages, and the replies to list requests. */
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
import type { IpSet, ObservedIpSet } from "../../state/ip-set.ts";
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
  /** With `mustBeNew`, fails if the set exists. Without it, succeeds if the set exists with the same parameters. */
  | { readonly command: "create"; readonly set: IpSet; readonly mustBeNew: boolean }
  | { readonly command: "destroy"; readonly name: string }
  | { readonly command: "swap"; readonly first: string; readonly second: string }
  /** With `set`: lists that set with its entries. Without it: lists the parameters of all sets. */
  | { readonly command: "list"; readonly set?: Pick<ObservedIpSet, "name" | "type"> }
  | {
      readonly command: "add" | "remove";
      readonly set: IpSet;
      /** At most `maxEntriesPerMessage` entries. */
      readonly entries: readonly EntryValues[];
    };

/**
 * IPSET_FLAG_EXIST is set by omitting NLM_F_EXCL. Adding an existing entry, removing a missing one, and creating a
 * set that exists with the same parameters then succeed.
 */
export const setRequestKind: RequestKind<SetRequest> = {
  type: ({ command }) => messageType(command),
  flags: (request) => (request.command === "create" ? createFlags(request.mustBeNew) : 0),
  encode(writer, request) {
    // ipset always expects AF_INET as the family in this header.
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
        // When the kernel echoes a rejected message, it replaces this number with the rejected entry's line number.
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

/** For example `10.96.0.1,tcp:443`. If there are several entries, the first one and the number of further ones. */
function entriesText({
  set,
  entries,
}: SetRequest & { readonly command: "add" | "remove" }): string {
  const [first = {}] = entries;
  const text = entryText(set.type, first);
  return entries.length === 1 ? text : `${text} and ${entries.length - 1} more`;
}

/**
 * Decodes one message of a list reply. The kernel sends a large set in several messages. Only the first of them has the
 * parameters.
 */
export function decodeListing({ body }: Message): CommandValues {
  skipNetfilterHeader(body);
  return commandAttributes.decode(body);
}

/**
 * The position (from 1) of the rejected entry; undefined if the message was rejected as a whole. `echo` is the
 * rejected request without its netlink header.
 */
export function rejectedPosition(echo: Uint8Array | undefined): number | undefined {
  if (echo === undefined) return undefined;
  const reader = new ByteReader(echo);
  skipNetfilterHeader(reader);
  const { lineNumber } = commandAttributes.decode(reader);
  return lineNumber === 0 ? undefined : lineNumber;
}
