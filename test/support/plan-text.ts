/** Desired state as sorted text in the format of `ipvsadm -Sn` and `ipset save`, for comparison. */
import { hostPort, ipFamilies } from "../../src/base/ip.ts";
import type { DesiredState } from "../../src/plan/desired-state.ts";
import type { PlannedVirtualServer } from "../../src/plan/service-port-plan.ts";
import { setsFor } from "../../src/plan/sets.ts";

const protocolOptions = { TCP: "-t", UDP: "-u", SCTP: "--sctp-service", FWM: "-f" } as const;

/** Lines as `ipvsadm -Sn` prints them. */
export function ipvsText(desired: DesiredState): readonly string[] {
  const planned = [...desired.virtualServerKeys()].flatMap((key) => {
    const server = desired.virtualServer(key);
    return server === undefined ? [] : [server];
  });
  return planned.flatMap(serverLines).sort();
}

function serverLines({ virtualServer, realServers }: PlannedVirtualServer): readonly string[] {
  const { protocol, address, port, scheduler, persistenceTimeoutSeconds } = virtualServer;
  const place = protocol === "FWM" ? port : hostPort(address, port);
  const name = `${protocolOptions[protocol]} ${place}`;
  const persistence = persistenceTimeoutSeconds === 0 ? "" : ` -p ${persistenceTimeoutSeconds}`;
  const flags = virtualServer.flags === 0 ? "" : " -b mh-port";
  return [
    `-A ${name} -s ${scheduler}${persistence}${flags}`,
    ...realServers.map((server) => {
      return `-a ${name} -r ${hostPort(server.address, server.port)} -m -w ${server.weight}`;
    }),
  ];
}

/** Members as `ipset save` prints them: `add NAME ENTRY`. */
export function entriesText(desired: DesiredState): readonly string[] {
  return ipFamilies
    .flatMap(setsFor)
    .flatMap((set) => [...desired.entries(set.name)].map((entry) => `add ${set.name} ${entry}`))
    .sort();
}
