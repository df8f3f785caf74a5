/** What the errors of kernel clients mean for what is done next. Pure. */
import { errno } from "../../base/errno.ts";

/** For log, metric and tests: the errno's name (`EINVAL`), or the exit code of a program (`exit-4`). */
export function refusalReason(error: Error): string {
  const { code, exitCode } = error as { readonly code?: unknown; readonly exitCode?: unknown };
  if (typeof code === "string") return code;
  return typeof exitCode === "number" ? `exit-${exitCode}` : "error";
}

/** IPSET_ERR_BUSY, linux/netfilter/ipset/ip_set.h: a rule or another set refers to the set. */
const setBusy = 4100;

export function isSetInUse(error: Error): boolean {
  return errnoOf(error) === setBusy;
}

const contradictions: ReadonlySet<number> = new Set([
  errno.EEXIST,
  errno.ENOENT,
  errno.ESRCH,
  errno.ENODEV,
]);

/**
 * The kernel does not hold what the cache says, or holds what it does not say: what a third party did meanwhile. A
 * program that writes rules does not say; it builds on sets and chains.
 */
export function contradictsCache(error: Error): boolean {
  const number = errnoOf(error);
  return number === undefined ? "exitCode" in error : contradictions.has(number);
}

/** It is not about the object: the process may not do this at all. */
export function isNotPermitted(error: Error): boolean {
  const number = errnoOf(error);
  return number === errno.EPERM || number === errno.EACCES;
}

/** Errors of the netlink clients carry the number. */
function errnoOf(error: Error): number | undefined {
  return "errno" in error && typeof error.errno === "number" ? error.errno : undefined;
}
