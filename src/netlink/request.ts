/** How requests of one kind become messages. */
import { errno as errnos } from "../base/errno.ts";
import { type Description, NetlinkError } from "./errors.ts";
import type { MessageWriter } from "./message.ts";
import { messageFlags } from "./netlink-package.ts";
import type { Outcome } from "./reply.ts";

/** The recipe for requests of one kind: one object per kind, none per request. */
export interface RequestKind<T> {
  /** nlmsg_type: the generic netlink family, or subsystem and command, or RTM_*. */
  type(request: T): number;
  /** NLM_F_* besides REQUEST, ACK and DUMP, which the transport sets; absent: none. */
  flags?(request: T): number;
  /** Writes everything behind the netlink header. */
  encode(writer: MessageWriter, request: T): void;
  /** Words for an error, asked for only when there is one. */
  describe(request: T, errno: number): Description;
  /** Messages around a single request, for subsystems of netfilter that change nothing outside a transaction. */
  readonly transaction?: {
    readonly begin: RequestKind<undefined>;
    readonly end: RequestKind<undefined>;
  };
}

/** One request of a list that the kernel refused. */
export interface FailedRequest {
  /** Position in the list. */
  readonly index: number;
  readonly error: NetlinkError;
}

/** What an error of the socket means; the kernel adds no words to these. */
const socketMeanings: Readonly<Record<number, string>> = {
  [errnos.ENOBUFS]:
    "replies were lost because the receive buffer was full; the kernel processed the requests anyway",
  [errnos.ETIMEDOUT]: "timed out waiting for a reply; the kernel may still process the request",
  [errnos.EAGAIN]: "the dump kept changing while it was read",
  [errnos.EBADF]: "the socket was closed",
  [errnos.EPERM]: "kube-ipvs needs CAP_NET_ADMIN",
};

/** The error for a request with the outcome that the kernel reported, or that the socket ended with. */
export function errorOf<T>(kind: RequestKind<T>, request: T, outcome: Outcome): NetlinkError {
  const description = kind.describe(request, outcome.errno);
  const meaning = description.meaning ?? socketMeanings[outcome.errno];
  return new NetlinkError({
    ...description,
    ...outcome,
    ...(meaning === undefined ? {} : { meaning }),
  });
}

/**
 * Writes one request, with the messages around it. All have its sequence number: a transaction that is refused as a whole
 * is answered at its first message.
 */
export function encodeSingle<T>(
  writer: MessageWriter,
  kind: RequestKind<T>,
  request: T,
  header: { readonly flags: number; readonly sequence: number },
): void {
  const { transaction } = kind;
  const around = { flags: 0, sequence: header.sequence };
  if (transaction !== undefined) encodeRequest(writer, transaction.begin, undefined, around);
  encodeRequest(writer, kind, request, header);
  if (transaction !== undefined) encodeRequest(writer, transaction.end, undefined, around);
}

/** Writes one message. */
export function encodeRequest<T>(
  writer: MessageWriter,
  kind: RequestKind<T>,
  request: T,
  { flags, sequence }: { readonly flags: number; readonly sequence: number },
): void {
  const start = writer.beginMessage(
    kind.type(request),
    messageFlags.request | (kind.flags?.(request) ?? 0) | flags,
    sequence,
  );
  kind.encode(writer, request);
  writer.endMessage(start);
}
