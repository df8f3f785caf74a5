/** Turns requests of one kind into messages. */
import { errno as errnos } from "../base/errno.ts";
import { type Description, NetlinkError } from "./errors.ts";
import type { MessageWriter } from "./message.ts";
import { messageFlags } from "./netlink-package.ts";
import type { Outcome } from "./reply.ts";

/** How to encode and describe requests of one kind. There is one such object per kind, not per request. */
export interface RequestKind<T> {
  /** nlmsg_type: the generic netlink family, the subsystem and command, or RTM_*. */
  type(request: T): number;
  /** NLM_F_* in addition to REQUEST, ACK and DUMP, which the transport sets. If undefined, no other flags are set. */
  flags?(request: T): number;
  /** Writes everything after the netlink header. */
  encode(writer: MessageWriter, request: T): void;
  /** Describes the request in an error. Only called if there is an error. */
  describe(request: T, errno: number): Description;
}

/** A rejected request, identified by its position in a list of requests. */
export interface FailedRequest {
  /** Index of the request in the list. */
  readonly index: number;
  readonly error: NetlinkError;
}

/** Explanations of socket errors, for which the kernel sends no message. */
const socketMeanings: Readonly<Record<number, string>> = {
  [errnos.ENOBUFS]:
    "replies were lost because the receive buffer was full; the kernel processed the requests anyway",
  [errnos.ETIMEDOUT]: "timed out waiting for a reply; the kernel may still process the request",
  [errnos.EAGAIN]: "the dumped objects kept changing",
  [errnos.EBADF]: "the socket was closed",
  [errnos.EPERM]: "kube-ipvs needs CAP_NET_ADMIN",
};

/** Creates a request's error from the outcome that the kernel reported or from the socket's errno. */
export function errorOf<T>(kind: RequestKind<T>, request: T, outcome: Outcome): NetlinkError {
  const description = kind.describe(request, outcome.errno);
  const meaning = description.meaning ?? socketMeanings[outcome.errno];
  return new NetlinkError({
    ...description,
    ...outcome,
    ...(meaning === undefined ? {} : { meaning }),
  });
}

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
