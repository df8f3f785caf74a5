/** Multicast: messages that the kernel sends without a request. */

import { errnoName } from "../base/errno.ts";
import { errorText } from "../base/error-text.ts";
import { type Description, NetlinkError } from "./errors.ts";
import { type Message, messagesOf } from "./message.ts";
import { openSocket, type TransportDependencies } from "./transport.ts";

export interface Subscription {
  readonly protocol: number;
  /** RTNLGRP_*, NFNLGRP_* and so on. */
  readonly groups: readonly number[];
  readonly receiveBufferBytes?: number;
  /** Whether a datagram's messages are passed on. By default, all are. Throws DecodeError. */
  accepts?(datagram: Uint8Array): boolean;
  onMessage(message: Message): void;
  /**
   * Messages were lost (ENOBUFS) or could not be read, so the whole state must be checked. The subscription
   * continues after a lost message or a DecodeError, but not after other errors.
   */
  onError(error: Error): void;
}

/**
 * Joins multicast groups on a separate socket. Returns a function that ends the subscription. Throws NetlinkError.
 */
export function subscribe(parts: TransportDependencies, subscription: Subscription): () => void {
  const { shim } = parts;
  const { protocol, groups, receiveBufferBytes = 0 } = subscription;
  const options = { groups, receiveBufferBytes };
  const socket = openSocket(parts, protocol, options, descriptionOf(subscription));
  shim.watch(socket, (errno, datagram) => {
    if (errno !== 0) return subscription.onError(listenError(subscription, errno));
    try {
      if (subscription.accepts?.(datagram) === false) return;
      for (const message of messagesOf(datagram)) subscription.onMessage(message);
    } catch (error) {
      subscription.onError(error instanceof Error ? error : new Error(errorText(error)));
    }
  });
  return () => shim.close(socket);
}

function descriptionOf({ protocol, groups }: Subscription): Description {
  const subject = `of protocol ${protocol}, groups ${groups.join(", ")}`;
  return { operation: "listen to netlink messages", subject };
}

function listenError(subscription: Subscription, errno: number): NetlinkError {
  const meaning = errnoName(errno) === "ENOBUFS" ? { meaning: "messages were lost" } : {};
  return new NetlinkError({ ...descriptionOf(subscription), errno, ...meaning });
}
