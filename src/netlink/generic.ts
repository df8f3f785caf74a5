/** Generic netlink: each kernel facility is a family whose number is looked up at run time. */
import { errno as errnos } from "../base/errno.ts";
import { text } from "./attribute-field.ts";
import { attributeSet } from "./attribute-set.ts";
import type { ByteReader } from "./byte-reader.ts";
import { DecodeError, type Description } from "./errors.ts";
import type { MessageWriter } from "./message.ts";
import { decodeFamily, getFamilyCommand } from "./netlink-package.ts";
import type { RequestKind } from "./request.ts";
import type { NetlinkTransport } from "./transport.ts";

/** GENL_ID_CTRL: the family that resolves the names of other families. linux/genetlink.h. */
const CONTROL_FAMILY = 0x10;
const CONTROL_VERSION = 1;

/** CTRL_ATTR_*, linux/genetlink.h. */
const controlAttributes = attributeSet({ familyName: text(2) });

/** struct genlmsghdr: u8 command, u8 version, u16 zero. */
export function writeGenericHeader(writer: MessageWriter, command: number, version: number): void {
  writer.u8(command);
  writer.u8(version);
  writer.u16(0);
}

/** Reads the header and returns the command. Leaves the reader at the attributes. */
export function readGenericHeader(body: ByteReader): number {
  const command = body.u8("generic netlink command");
  body.skip(3, "generic netlink header");
  return command;
}

/**
 * Looks up a family's number, which is the message type of its requests. If the family is missing, the kernel tries to
 * load its module. `whenMissing` says what the operator can do.
 */
export async function resolveFamily(
  transport: NetlinkTransport,
  name: string,
  whenMissing: string,
): Promise<number> {
  const [family] = await transport.request(familyRequest(whenMissing), name, ({ body }) => {
    readGenericHeader(body);
    return decodeFamily(body.bytes(body.remaining, "family"));
  });
  if (family === undefined) throw new DecodeError("generic netlink family missing in reply", 0);
  return family.id;
}

function familyRequest(whenMissing: string): RequestKind<string> {
  return {
    type: () => CONTROL_FAMILY,
    encode(writer, familyName) {
      writeGenericHeader(writer, getFamilyCommand, CONTROL_VERSION);
      controlAttributes.encode(writer, { familyName });
    },
    describe: (name, errno): Description => ({
      operation: "find generic netlink family",
      subject: name,
      ...(errno === errnos.ENOENT ? { meaning: whenMissing } : {}),
    }),
  };
}
