/**
 * Checks whether IPVS has a scheduler, without creating anything.
 *
 * The probe requests an IPv6 firewall-mark service with netmask 0. ip_vs_add_service() looks up the scheduler first,
 * loading its module if allowed, and then rejects the netmask. EINVAL therefore means that the scheduler exists, and
 * ENOENT that it does not. Nothing is created, and existing services are not affected: a firewall mark is not an
 * address, and a mark that is already in use causes EEXIST. Schedulers support both families. EAFNOSUPPORT means that
 * IPVS is built without IPv6. In that case, the probe creates an IPv4 service with an unused mark and removes it
 * immediately, because the kernel does not check the netmask for IPv4.
 */

import { errno as errnos } from "../../base/errno.ts";
import type { IpFamily } from "../../base/ip.ts";
import { knownSchedulers } from "../../base/scheduler.ts";
import {
  type Description,
  isAlreadyExists,
  isInvalid,
  NetlinkError,
} from "../../netlink/errors.ts";
import type { RequestKind } from "../../netlink/request.ts";
import type { NetlinkTransport } from "../../netlink/transport.ts";
import { encodeFirewallMarkService, type FirewallMarkService } from "./codec.ts";
import { commands } from "./constants.ts";

interface Probe extends FirewallMarkService {
  readonly command: number;
}

const FIRST_MARK = 0x6b756265;
const MAX_MARKS = 16;
/** IP_VS_SCHEDNAME_MAXLEN minus the terminator. */
const MAX_NAME_LENGTH = 15;

/** Throws a NetlinkError that says what is missing and what to do. */
export async function probeScheduler(
  transport: NetlinkTransport,
  familyId: number,
  scheduler: string,
  family: IpFamily,
): Promise<void> {
  const kind = probeKind(familyId, family);
  // For an overlong name, the kernel also returns EINVAL, which would look like the rejection of the netmask.
  if (scheduler.length > MAX_NAME_LENGTH) {
    const errno = errnos.ENOENT;
    throw new NetlinkError({ ...describeProbe(scheduler, family, errno), errno });
  }
  let refusal = await create(transport, kind, { scheduler, family: "IPv6", prefixLength: 0 });
  if (isInvalid(refusal)) return;
  if (family === "IPv4" && refusal?.errno === errnos.EAFNOSUPPORT) {
    refusal = await create(transport, kind, { scheduler, family: "IPv4", prefixLength: 32 });
  }
  if (refusal !== undefined) throw refusal;
}

/** Uses the first mark that is not in use. If the service is created, it is removed immediately. */
async function create(
  transport: NetlinkTransport,
  kind: RequestKind<Probe>,
  service: Omit<FirewallMarkService, "mark">,
): Promise<NetlinkError | undefined> {
  let refusal: NetlinkError | undefined;
  for (let mark = FIRST_MARK; mark < FIRST_MARK + MAX_MARKS; mark += 1) {
    refusal = await attempt(transport, kind, { ...service, mark, command: commands.newService });
    if (isAlreadyExists(refusal)) continue;
    if (refusal !== undefined) return refusal;
    await transport.request(kind, { ...service, mark, command: commands.deleteService });
    return undefined;
  }
  return refusal;
}

async function attempt(
  transport: NetlinkTransport,
  kind: RequestKind<Probe>,
  probe: Probe,
): Promise<NetlinkError | undefined> {
  const [failed] = await transport.batch(kind, [probe]);
  return failed?.error;
}

function probeKind(familyId: number, family: IpFamily): RequestKind<Probe> {
  return {
    type: () => familyId,
    encode: (writer, probe) => encodeFirewallMarkService(writer, probe.command, probe),
    describe: ({ scheduler }, errno) => describeProbe(scheduler, family, errno),
  };
}

function describeProbe(scheduler: string, family: IpFamily, errno: number): Description {
  return {
    operation: "use scheduler",
    subject: `${scheduler} for ${family}`,
    ...meaningOf(scheduler, errno),
  };
}

function meaningOf(scheduler: string, errno: number): { readonly meaning?: string } {
  if (errno === errnos.EAFNOSUPPORT) return { meaning: "the kernel's IPVS is built without IPv6" };
  if (errno !== errnos.ENOENT) return {};
  return {
    meaning: knownSchedulers.includes(scheduler)
      ? `module ip_vs_${scheduler} is neither loaded nor built in, and the kernel could not load it: run modprobe ip_vs_${scheduler}, or install the package with the kernel's extra modules`
      : `Linux has no such scheduler; it has ${knownSchedulers.join(", ")}`,
  };
}
