/** What a refusal of an IPVS change means, and which refusals are none. */
import { errno as errnos } from "../../base/errno.ts";
import { type Description, isAlreadyExists, isNotFound } from "../../netlink/errors.ts";
import type { FailedRequest } from "../../netlink/request.ts";
import { realServerKey } from "../../state/real-server.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import type { IpvsChange } from "../kernel.ts";

const operations: Readonly<Record<IpvsChange["kind"], string>> = {
  "create-virtual-server": "create virtual server",
  "update-virtual-server": "update virtual server",
  "remove-virtual-server": "remove virtual server",
  "create-real-server": "create real server",
  "update-real-server": "update real server",
  "remove-real-server": "remove real server",
};

/** Words for a refused change. */
export function describeChange(change: IpvsChange, errno: number): Description {
  const meaning = meaningOf(change, errno);
  return {
    operation: operations[change.kind],
    subject: changeSubject(change),
    ...(meaning === undefined ? {} : { meaning }),
  };
}

function changeSubject(change: IpvsChange): string {
  const server = virtualServerKey(change.virtualServer);
  return "realServer" in change ? `${realServerKey(change.realServer)} of ${server}` : server;
}

function meaningOf(change: IpvsChange, errno: number): string | undefined {
  switch (errno) {
    case errnos.ESRCH:
      return "no such virtual server";
    case errnos.ENOENT:
      if ("realServer" in change) return "no such real server";
      return "scheduler" in change.virtualServer
        ? `the kernel has no scheduler ${change.virtualServer.scheduler}: modprobe ip_vs_${change.virtualServer.scheduler}`
        : undefined;
    case errnos.EEXIST:
      return "it exists already";
    case errnos.EAFNOSUPPORT:
      return "the kernel's IPVS is built without IPv6";
    case errnos.EINVAL:
      return change.kind === "create-real-server"
        ? "it is not a unicast address, or no link of this network namespace has ever been up: ip link set lo up"
        : undefined;
    default:
      return undefined;
  }
}

/** A removal of what is not there: what was wanted is the case. */
export function isAlreadyDone(changes: readonly IpvsChange[], refusal: FailedRequest): boolean {
  return changes[refusal.index]?.kind.startsWith("remove-") === true && isNotFound(refusal.error);
}

export function isCreationOfExisting(
  changes: readonly IpvsChange[],
  refusal: FailedRequest,
): boolean {
  const change = changes[refusal.index];
  if (change === undefined || !isAlreadyExists(refusal.error)) return false;
  return change.kind.startsWith("create-") && !("mustBeNew" in change);
}

/** The same change for a server that turned out to exist. */
export function asUpdate(change: IpvsChange): IpvsChange {
  switch (change.kind) {
    case "create-virtual-server":
      return { kind: "update-virtual-server", virtualServer: change.virtualServer };
    case "create-real-server":
      return { ...change, kind: "update-real-server" };
    default:
      return change;
  }
}

/**
 * The creations among `refused` for which no later change of the list decides over the same server:
 * carrying an earlier one out behind a later one would bring back the past.
 */
export function notSuperseded(
  changes: readonly IpvsChange[],
  refused: readonly FailedRequest[],
): FailedRequest[] {
  if (refused.length === 0) return [];
  const lastIndexBySubject = new Map<string, number>();
  for (const [index, change] of changes.entries()) {
    lastIndexBySubject.set(changeSubject(change), index);
    if (change.kind === "remove-virtual-server") lastIndexBySubject.set(removalOf(change), index);
  }
  return refused.filter(({ index }) => {
    const change = changes[index] as IpvsChange;
    const lastOfSubject = lastIndexBySubject.get(changeSubject(change)) ?? index;
    const removal = lastIndexBySubject.get(removalOf(change)) ?? -1;
    return lastOfSubject <= index && removal <= index;
  });
}

/** A key beside the subjects: the removal of a virtual server takes its real servers along. */
function removalOf({ virtualServer }: IpvsChange): string {
  return `removal of ${virtualServerKey(virtualServer)}`;
}
