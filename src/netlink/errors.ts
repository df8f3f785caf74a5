/** The errors with which a netlink request can fail. */
import { errnoName } from "../base/errno.ts";

/** Describes a request in an operator's terms. It is only built if the request has failed. */
export interface Description {
  /** A phrase that can follow "Cannot", such as "create virtual server". */
  readonly operation: string;
  /** For example "TCP 10.96.0.1:443". Empty if the operation needs no subject. */
  readonly subject: string;
  /** Name of an error number that errno(3) does not define, such as "IPSET_ERR_EXIST". */
  readonly code?: string;
  /**
   * What this error means for this request and what the operator can do. Printed if the kernel returned no message.
   */
  readonly meaning?: string;
}

export interface NetlinkErrorFacts extends Description {
  /** The positive error number. */
  readonly errno: number;
  /** The kernel's error message: NLMSGERR_ATTR_MSG of an extended acknowledgment. */
  readonly kernelMessage?: string;
  /** Bytes from the start of the request's netlink header to the attribute that the kernel rejected. */
  readonly attributeOffset?: number;
  /** The rejected request without its netlink header, if the kernel returned it. */
  readonly echo?: Uint8Array;
}

/** The kernel rejected a request, or the socket failed while a request was in progress. */
export class NetlinkError extends Error {
  override readonly name = "NetlinkError";
  readonly operation: string;
  readonly subject: string;
  /** The errno name, such as `EEXIST`. */
  readonly code: string;
  readonly errno: number;
  readonly kernelMessage: string | undefined;
  readonly attributeOffset: number | undefined;
  readonly echo: Uint8Array | undefined;

  constructor(facts: NetlinkErrorFacts) {
    super(errorMessage(facts));
    this.operation = facts.operation;
    this.subject = facts.subject;
    this.code = facts.code ?? errnoName(facts.errno);
    this.errno = facts.errno;
    this.kernelMessage = facts.kernelMessage;
    this.attributeOffset = facts.attributeOffset;
    this.echo = facts.echo;
  }
}

/** For example "Cannot create virtual server TCP 10.96.0.1:443: EEXIST (the kernel's message)". */
function errorMessage(facts: NetlinkErrorFacts): string {
  const subject = facts.subject === "" ? "" : ` ${facts.subject}`;
  const words = facts.kernelMessage ?? facts.meaning;
  const offset = facts.attributeOffset;
  const details = [
    ...(words === undefined ? [] : [words]),
    ...(offset === undefined ? [] : [`rejected attribute at byte ${offset} of the request`]),
  ];
  const explanation = details.length === 0 ? "" : ` (${details.join("; ")})`;
  return `Cannot ${facts.operation}${subject}: ${facts.code ?? errnoName(facts.errno)}${explanation}`;
}

/** The kernel sent bytes that are not a well-formed message, attribute or table. */
export class DecodeError extends Error {
  override readonly name = "DecodeError";

  /** `what` names the part being read and its problem. `offset` is the position in the received bytes. */
  constructor(what: string, offset: number) {
    super(`Cannot decode a message from the kernel: ${what} at byte ${offset}`);
  }
}

function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof NetlinkError && codes.includes(error.code);
}

export function isAlreadyExists(error: unknown): boolean {
  return hasCode(error, "EEXIST");
}

/**
 * True for ENOENT, for ESRCH and ENODEV (the equivalents in IPVS and rtnetlink), and for EADDRNOTAVAIL (addresses).
 */
export function isNotFound(error: unknown): boolean {
  return hasCode(error, "ENOENT", "ESRCH", "ENODEV", "EADDRNOTAVAIL");
}

export function isInvalid(error: unknown): boolean {
  return hasCode(error, "EINVAL");
}

/** Whether the kernel lacks the subsystem. Other errors, such as EPERM, do not mean that. */
export function isSubsystemMissing(error: unknown): boolean {
  return isInvalid(error) || isUnsupported(error);
}

export function isUnsupported(error: unknown): boolean {
  return hasCode(error, "EOPNOTSUPP", "EAFNOSUPPORT");
}

/** Whether a subscription lost messages. */
export function areMessagesLost(error: unknown): boolean {
  return hasCode(error, "ENOBUFS");
}
