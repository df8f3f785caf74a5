/** The tests' messages, and functions that parse replies. Offsets: linux/netlink.h. */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { type SocketHandle, transact } from "../../native-shim/index.ts";

export const protocols = { route: 0, userSocket: 2 } as const;
export const errnos = {
  ENOENT: 2,
  ENOEXEC: 8,
  EBADF: 9,
  EACCES: 13,
  EBUSY: 16,
  ENODEV: 19,
  EINVAL: 22,
  ENAMETOOLONG: 36,
  EBADMSG: 74,
  EMSGSIZE: 90,
  EPROTONOSUPPORT: 93,
  EOPNOTSUPP: 95,
  ENOBUFS: 105,
  ETIMEDOUT: 110,
} as const;
export const flags = { request: 1, acknowledge: 4, dump: 0x300, create: 0x400 } as const;
export const types = { noop: 1, error: 2, done: 3, newLink: 16, delLink: 17, getLink: 18 } as const;
export const linkGroup = 1;

const HEADER_BYTES = 16;
const LINK_BYTES = 16;

export interface Message {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  readonly payload: Buffer;
}

/** Builds one message and sets its length. */
export function message(parts: {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  readonly payload?: Uint8Array;
}): Buffer {
  const payload = parts.payload ?? new Uint8Array(0);
  const bytes = Buffer.alloc(HEADER_BYTES + payload.length);
  bytes.writeUInt32LE(bytes.length, 0);
  bytes.writeUInt16LE(parts.type, 4);
  bytes.writeUInt16LE(parts.flags, 6);
  bytes.writeUInt32LE(parts.sequence, 8);
  bytes.set(payload, HEADER_BYTES);
  return bytes;
}

/** A request that the kernel only acknowledges. It requires no permissions. */
export function noop(sequence: number): Buffer {
  return message({ type: types.noop, flags: flags.request | flags.acknowledge, sequence });
}

/** The request of `ip link show`. */
export function linkDump(sequence: number): Buffer {
  const payload = new Uint8Array(LINK_BYTES);
  return message({ type: types.getLink, flags: flags.request | flags.dump, sequence, payload });
}

/** The request of `ip link add type KIND`. */
export function linkOfKind(sequence: number, kind: string): Buffer {
  const name = attribute(1, Buffer.from(`${kind}\0`));
  const payload = Buffer.concat([new Uint8Array(LINK_BYTES), attribute(18, name)]);
  const wanted = flags.request | flags.acknowledge | flags.create;
  return message({ type: types.newLink, flags: wanted, sequence, payload });
}

/** The request of `ip link set lo up` or `down`. */
export function setLoopback(sequence: number, isUp: boolean): Buffer {
  assertOwnNamespace();
  const payload = Buffer.alloc(LINK_BYTES);
  payload.writeInt32LE(1, 4);
  payload.writeUInt32LE(isUp ? 1 : 0, 8);
  payload.writeUInt32LE(1, 12);
  const wanted = flags.request | flags.acknowledge;
  return message({ type: types.newLink, flags: wanted, sequence, payload });
}

export function attribute(type: number, value: Uint8Array): Buffer {
  const bytes = Buffer.alloc((4 + value.length + 3) & ~3);
  bytes.writeUInt16LE(4 + value.length, 0);
  bytes.writeUInt16LE(type, 2);
  bytes.set(value, 4);
  return bytes;
}

/** Splits replies. An invalid length fails the test. */
export function messagesOf(replies: Uint8Array): Message[] {
  const bytes = Buffer.from(replies.buffer, replies.byteOffset, replies.length);
  const found: Message[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = bytes.readUInt32LE(at);
    assert.ok(length >= HEADER_BYTES && at + length <= bytes.length, `length ${length} at ${at}`);
    found.push({
      type: bytes.readUInt16LE(at + 4),
      flags: bytes.readUInt16LE(at + 6),
      sequence: bytes.readUInt32LE(at + 8),
      payload: bytes.subarray(at + HEADER_BYTES, at + length),
    });
    at += (length + 3) & ~3;
  }
  return found;
}

/** The positive errno of an NLMSG_ERROR or NLMSG_DONE message. */
export function errorNumber(reply: Message): number {
  return Math.abs(reply.payload.readInt32LE(0));
}

/** Sends one message. The call must succeed, but the kernel's answer may be an error. */
export async function ask(socket: SocketHandle, bytes: Buffer): Promise<Message[]> {
  const sequence = bytes.readUInt32LE(8);
  const result = await transact(socket, bytes, sequence, 5000);
  assert.equal(result.errno, 0);
  return messagesOf(result.replies);
}

/** Changes the state of `lo` once, which causes an event for RTNLGRP_LINK. */
export async function flipLoopback(socket: SocketHandle, sequence: number): Promise<void> {
  const [reply] = await ask(socket, setLoopback(sequence, sequence % 2 === 0));
  assert.ok(reply !== undefined && errorNumber(reply) === 0, "lo cannot be set up or down");
}

/**
 * Changes the state of `lo` several times with one datagram, so that all changes precede the first received event.
 */
export async function flipLoopbackOften(socket: SocketHandle, count: number): Promise<void> {
  const flips = Array.from({ length: count }, (_, flip) => setLoopback(flip, flip % 2 === 0));
  const { errno } = await transact(socket, Buffer.concat(flips), count - 1, 5000);
  assert.equal(errno, 0);
}

/** In the machine's own network namespace, every program would lose its connections over `lo`. */
export function assertOwnNamespace(): void {
  assert.deepEqual(
    Object.keys(networkInterfaces()).filter((name) => name !== "lo"),
    [],
    "not in a separate network namespace: run it with `make test-shim` or `unshare --net`",
  );
}

export function countOpenFiles(): number {
  return readdirSync("/proc/self/fd").length;
}

export function countThreads(): number {
  return readdirSync("/proc/self/task").length;
}
