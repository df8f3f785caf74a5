/** Explains rejected IPVS changes, and recognizes rejections that are not failures. */
import { errno as errnos } from "../../base/errno.ts";
import { type Description, isAlreadyExists, isNotFound } from "../../netlink/errors.ts";
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

/** Describes a rejected change. */
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
        ? "it is not a unicast address, or no link of this network namespace has ever been up: run ip link set lo up"
        : undefined;
    default:
      return undefined;
  }
}

/** True if the change removes something that does not exist, so the desired state is reached. */
export function isAlreadyDone(changes: readonly IpvsChange[], refusal: FailedRequest): boolean {
  return changes[refusal.index]?.kind.endsWith("-remove") === true && isNotFound(refusal.error);
}

export function isCreationOfExisting(
  changes: readonly IpvsChange[],
  refusal: FailedRequest,
): boolean {
  const change = changes[refusal.index];
  if (change === undefined || !isAlreadyExists(refusal.error)) return false;
  if (change.kind === "virtual-server-create") return change.mustBeNew !== true;
  return change.kind === "real-server-create";
}

/** Converts the creation of a server that already exists into an update. */
export function asUpdate(change: IpvsChange): IpvsChange {
  switch (change.kind) {
    case "virtual-server-create":
      return { kind: "virtual-server-update", after: change.after };
    case "real-server-create":
      return { ...change, kind: "real-server-update" };
    default:
      return change;
  }
}

/**
 * The creations among `rejected` that no later change in the list supersedes. Resending a change after a later change
 * to the same server would undo the later one.
 */
export function notSuperseded(
  changes: readonly IpvsChange[],
  rejected: readonly FailedRequest[],
): FailedRequest[] {
  if (rejected.length === 0) return [];
  const lastIndexBySubject = new Map<string, number>();
  for (const [index, change] of changes.entries()) {
    lastIndexBySubject.set(changeSubject(change), index);
    if (change.kind === "virtual-server-remove") lastIndexBySubject.set(removalOf(change), index);
  }
  return rejected.filter(({ index }) => {
    const change = changes[index] as IpvsChange;
    const lastOfSubject = lastIndexBySubject.get(changeSubject(change)) ?? index;
    const removal = lastIndexBySubject.get(removalOf(change)) ?? -1;
    return lastOfSubject <= index && removal <= index;
  });
}

/** Removals have a separate key, because removing a virtual server also removes its real servers. */
function removalOf(change: IpvsChange): string {
  return `removal of ${virtualServerKey(virtualServerOf(change))}`;
}
