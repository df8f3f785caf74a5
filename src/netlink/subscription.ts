/** Multicast: messages that the kernel sends of its own accord. */

import { errnoName } from "../base/errno.ts";
import { errorText } from "../base/error-text.ts";
import { printDatagram } from "./debug.ts";
import { NetlinkError } from "./errors.ts";
import { type Message, readMessages } from "./message.ts";
import type { TransportParts } from "./transport.ts";

export interface Subscription {
  readonly protocol: number;
  /** RTNLGRP_*, NFNLGRP_* … */
  readonly groups: readonly number[];
  onMessage(message: Message): void;
  /** Messages were lost (ENOBUFS) or could not be read: check the whole state. Listening continues. */
  onError(error: Error): void;
}

/** Joins multicast groups on a socket of its own. Returns the stop. Throws NetlinkError. */
export function subscribe(parts: TransportParts, subscription: Subscription): () => void {
  const { shim, debug } = parts;
  const socket = openSocket(parts, subscription);
  shim.watch(socket, (errno, datagram) => {
    if (debug !== undefined) printDatagram(debug, "received", datagram);
    if (errno !== 0) return subscription.onError(listenError(subscription, errno));
    try {
      readMessages(datagram, (message) => subscription.onMessage(message));
    } catch (error) {
      subscription.onError(error instanceof Error ? error : new Error(errorText(error)));
    }
  });
  return () => shim.close(socket);
}

function openSocket(
  { shim }: TransportParts,
  subscription: Subscription,
): ReturnType<TransportParts["shim"]["open"]> {
  try {
    return shim.open(subscription.protocol, { groups: subscription.groups });
  } catch (cause) {
    const errno = (cause as { errno?: unknown }).errno;
    if (typeof errno !== "number") throw cause;
    throw listenError(subscription, Math.abs(errno));
  }
}

function listenError({ protocol, groups }: Subscription, errno: number): NetlinkError {
  const subject = `of protocol ${protocol}, groups ${groups.join(", ")}`;
  return new NetlinkError({
    operation: "listen to netlink messages",
    subject,
    errno,
    ...(errnoName(errno) === "ENOBUFS" ? { meaning: "messages were lost" } : {}),
  });
}
