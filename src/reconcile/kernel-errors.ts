/** Refusals of the kernel that decide what is done next. Pure. */
import { errno } from "../base/errno.ts";

/** IPSET_ERR_BUSY, linux/netfilter/ipset/ip_set.h */
const setBusy = 4100;

/** Something of that identity is there already. */
export function isTaken(error: unknown): boolean {
  return errnoOf(error) === errno.EEXIST;
}

/** A rule or another set refers to the set, so that it cannot be destroyed. */
export function isSetInUse(error: unknown): boolean {
  return errnoOf(error) === setBusy;
}

/** Errors of the netlink clients carry the number. */
function errnoOf(error: unknown): unknown {
  return error instanceof Error && "errno" in error ? error.errno : undefined;
}
