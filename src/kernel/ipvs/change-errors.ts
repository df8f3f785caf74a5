/** Explains rejected IPVS changes, and recognizes rejections that are not failures. */
import { errno as errnos } from "../../base/errno.ts";
import { type Description, isNotFound } from "../../netlink/errors.ts";
import type { FailedRequest } from "../../netlink/request.ts";
import { realServerKey } from "../../state/real-server.ts";
import { type VirtualServerId, virtualServerKey } from "../../state/virtual-server.ts";
import type { IpvsChange } from "../kernel.ts";

const operations: Readonly<Record<IpvsChange["kind"], string>> = {
  "virtual-server-create": "create virtual server",
  "virtual-server-update": "update virtual server",
  "virtual-server-remove": "remove virtual server",
  "real-server-create": "create real server",
  "real-server-update": "update real server",
  "real-server-remove": "remove real server",
};

export function describeChange(change: IpvsChange, errno: number): Description {
  const meaning = meaningOf(change, errno);
  return {
    operation: operations[change.kind],
    subject: changeSubject(change),
    ...(meaning === undefined ? {} : { meaning }),
  };
}

function changeSubject(change: IpvsChange): string {
  const server = virtualServerKey(virtualServerOf(change));
  if (!("virtualServer" in change)) return server;
  return `${realServerKey("after" in change ? change.after : change.before)} of ${server}`;
}

/** The virtual server of the change; for a real server, the virtual server that it belongs to. */
export function virtualServerOf(change: IpvsChange): VirtualServerId {
  if ("virtualServer" in change) return change.virtualServer;
  return "after" in change ? change.after : change.before;
}

function meaningOf(change: IpvsChange, errno: number): string | undefined {
  switch (errno) {
    case errnos.ESRCH:
      return "no such virtual server";
    case errnos.ENOENT:
      if ("virtualServer" in change) return "no such real server";
      return "after" in change
        ? `the kernel has no scheduler ${change.after.scheduler}: run modprobe ip_vs_${change.after.scheduler}`
        : undefined;
    case errnos.EEXIST:
      return "it already exists";
    case errnos.EAFNOSUPPORT:
      return "the kernel's IPVS is built without IPv6";
    case errnos.EINVAL:
      return change.kind === "real-server-create"
        ? "it is not a unicast address, or no link in this network namespace has ever been up. In the second case, run ip link set lo up"
        : undefined;
    default:
      return undefined;
  }
}

/** True if the change removes something that does not exist, so the desired state is reached. */
export function isAlreadyDone(changes: readonly IpvsChange[], refusal: FailedRequest): boolean {
  return changes[refusal.index]?.kind.endsWith("-remove") === true && isNotFound(refusal.error);
}
