import type { HostPort } from "../../base/ip.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
import type { ServicePortRules } from "./service-port-rules.ts";
import type { UdpFlows, UdpPlace } from "./udp-flows.ts";

/** An address and port to which clients send UDP packets, and the endpoints that may reply to these packets. */
export interface UdpDestination extends UdpPlace {
  /** Endpoints as `address:port`. Empty if no endpoint serves the destination any longer. */
  readonly answers: ReadonlySet<HostPort>;
}

/** The service port that owns an address and port. Undefined if no service port claims them. */
export type WinnerAt = (key: ServerKey) => ServicePortRules | undefined;

interface Known {
  readonly place: UdpPlace;
  /** Flows of all service ports that request this destination. */
  readonly flows: Set<UdpFlows>;
}

/** UDP destinations of all Services. */
export class UdpDestinations {
  readonly #known = new Map<ServerKey, Known>();

  /** Replaces the flows of one service port. */
  replace(before: ServicePortRules | undefined, after: ServicePortRules | undefined): void {
    const [removed, added] = [before?.udpFlows, after?.udpFlows];
    if (removed !== undefined) this.#forEach(removed, (flows) => flows.delete(removed));
    if (added !== undefined) this.#forEach(added, (flows) => flows.add(added));
  }

  /**
   * All UDP destinations. Loopback destinations have no claims, so the endpoints of all their service ports may reply.
   * The other destinations of a service port, of which there may be thousands, share one set of endpoints.
   */
  all(winnerAt: WinnerAt): readonly UdpDestination[] {
    return [...this.#known.values()].map(({ place, flows }) => {
      const winner = winnerAt(place.key);
      if (winner?.udpFlows !== undefined) return { ...place, answers: winner.udpFlows.answers };
      const answers = winner === undefined ? [...flows].flatMap((one) => [...one.answers]) : [];
      return { ...place, answers: new Set(answers) };
    });
  }

  #forEach({ destinations }: UdpFlows, change: (flows: Set<UdpFlows>) => void): void {
    for (const place of destinations) {
      const { key } = place;
      const known = this.#known.get(key) ?? { place, flows: new Set<UdpFlows>() };
      change(known.flows);
      if (known.flows.size === 0) this.#known.delete(key);
      else this.#known.set(key, known);
    }
  }
}
