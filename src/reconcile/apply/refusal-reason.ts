/** Classifies kernel client errors. Pure. */
import { errno } from "../../base/errno.ts";

/** The reason code for logs and metrics: an errno name (`EINVAL`) or a program's exit code (`exit-4`). */
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
 * Whether the error shows that the kernel's state differs from the cache because a third party changed it. This
 * includes every iptables-restore failure, because iptables-restore does not report whether a set or chain is missing.
 */
export function contradictsCache(error: Error): boolean {
  const number = errnoOf(error);
  return number === undefined ? "exitCode" in error : contradictions.has(number);
}

/** Whether the process lacks permission for the whole operation, so that the error does not depend on the object. */
export function isNotPermitted(error: Error): boolean {
  const number = errnoOf(error);
  return number === errno.EPERM || number === errno.EACCES;
}

/** Errors of netlink clients have an errno. */
function errnoOf(error: Error): number | undefined {
  return "errno" in error && typeof error.errno === "number" ? error.errno : undefined;
}
