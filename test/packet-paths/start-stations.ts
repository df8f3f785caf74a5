/** The network with all participants, ready for packets. */
import { enterNetworkNamespace } from "../support/netns/network-namespace.ts";
import { buildNetwork } from "./network.ts";
import { guestNamed, guests, node } from "./places.ts";
import type { Listener } from "./probe.ts";
import { hostPort, ownPort, podPort, sctpEndpoints } from "./services.ts";
import { Station } from "./station.ts";

export interface RunningStations {
  /** By place. */
  readonly stations: ReadonlyMap<string, Station>;
  stop(): Promise<void>;
}

/** Builds the network. Afterwards, this thread is on the node. */
export async function startStations(): Promise<RunningStations> {
  buildNetwork();
  enterNetworkNamespace("node");
  const places = ["client", "node", ...guests.map(({ name }) => name)];
  const stations = new Map(places.map((place) => [place, new Station(place)]));
  await Promise.all([...stations.values()].map((one) => one.listen(listenersOf(one.name))));
  return {
    stations,
    stop: async () => {
      await Promise.all([...stations.values()].map((one) => one.stop()));
    },
  };
}

function listenersOf(place: string): readonly Listener[] {
  if (place === "client") return [];
  if (place !== "node") return [...onBoth("::", podPort), ...onSctp(place)];
  // The endpoint in the host network answers from the request's destination address.
  return [
    ...Object.values(node).flatMap((address) => onBoth(address, hostPort)),
    ...onBoth("::", ownPort),
  ];
}

/** Listeners of the SCTP Services' endpoints. Each has its own address; see sctp-station.c. */
function onSctp(place: string): readonly Listener[] {
  if (!sctpEndpoints.includes(place)) return [];
  return Object.values(guestNamed(place).addresses).map((address) => {
    return { protocol: "SCTP", address, port: podPort };
  });
}

function onBoth(address: string, port: number): readonly Listener[] {
  return [
    { protocol: "TCP", address, port },
    { protocol: "UDP", address, port },
  ];
}
