/** What can go wrong between a request and its reply. */
import { errnoName } from "../base/errno.ts";

/** What a request was about, in an operator's words; asked for only when the request has failed. */
export interface Description {
  /** "create virtual server": fits behind "Cannot". */
  readonly operation: string;
  /** "TCP 10.96.0.1:443"; empty where the operation says it all. */
  readonly subject: string;
  /** Name of an error number that errno(3) does not know: "IPSET_ERR_EXIST". */
  readonly code?: string;
  /** What this error means here and what the operator can do; printed where the kernel gave no words. */
  readonly meaning?: string;
}

export interface NetlinkErrorFacts extends Description {
  /** Positive. */
  readonly errno: number;
  /** The kernel's own words: NLMSGERR_ATTR_MSG of an extended acknowledgement. */
  readonly kernelMessage?: string;
  /** Bytes from the start of the request's netlink header to the attribute that the kernel rejected. */
  readonly attributeOffset?: number;
  /** The refused request behind its netlink header, where the kernel returned it. */
  readonly echo?: Uint8Array;
}

/** The kernel refused a request, or the socket failed while one was under way. */
export class NetlinkError extends Error {
  override readonly name = "NetlinkError";
  readonly operation: string;
  readonly subject: string;
  /** The errno name: `EEXIST`. */
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

/** "Cannot create virtual server TCP 10.96.0.1:443: EEXIST (the kernel's words)". */
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

/** What the kernel sent is no well-formed message, attribute or table. */
export class DecodeError extends Error {
  override readonly name = "DecodeError";

  /** `what` was being read, with what is wrong with it; `offset`: position in the received bytes. */
  constructor(what: string, offset: number) {
    super(`Cannot decode a message of the kernel: ${what} at byte ${offset}`);
  }
}

function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof NetlinkError && codes.includes(error.code);
}

export function isAlreadyExists(error: unknown): boolean {
  return hasCode(error, "EEXIST");
}

/** ENOENT; ESRCH and ENODEV, by which IPVS and rtnetlink say the same; EADDRNOTAVAIL for addresses. */
export function isNotFound(error: unknown): boolean {
  return hasCode(error, "ENOENT", "ESRCH", "ENODEV", "EADDRNOTAVAIL");
}

export function isInvalid(error: unknown): boolean {
  return hasCode(error, "EINVAL");
}

export function isUnsupported(error: unknown): boolean {
  return hasCode(error, "EOPNOTSUPP", "EAFNOSUPPORT");
}
