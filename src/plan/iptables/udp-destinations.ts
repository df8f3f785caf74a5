import type { IpAddress } from "../../base/ip.ts";
import { sameSet } from "../../base/same-set.ts";
import type { ServicePortRules } from "./service-port-rules.ts";
import type { UdpFlows, UdpPlace } from "./udp-flows.ts";

/** An address and port to which clients send UDP packets, and the endpoints that may answer there. */
export interface UdpDestination {
  /** The key that `virtualServerKey` returns. */
  readonly key: string;
  readonly address: IpAddress;
  readonly port: number;
  /** Endpoints as `address:port`. Empty if nobody serves there any longer. */
  readonly answers: ReadonlySet<string>;
}

/** The service port that owns an address and port. Undefined if nobody claims them. */
export type WinnerAt = (key: string) => ServicePortRules | undefined;

interface Known {
  readonly place: UdpPlace;
  /** Flows of all service ports that request this destination. */
  readonly flows: Set<UdpFlows>;
}

/** UDP destinations of all Services. Marks those whose answers changed. */
export class UdpDestinations {
  readonly #known = new Map<string, Known>();
  #touched = new Map<string, UdpPlace>();

  /** Replaces the flows of one service port. */
  replace(before: ServicePortRules | undefined, after: ServicePortRules | undefined): void {
    const [removed, added] = [before?.udpFlows, after?.udpFlows];
    // If the flows are unchanged, conntrack need not be searched.
    const isTouched = removed === undefined || added === undefined || !sameFlows(removed, added);
    if (removed !== undefined) this.#forEach(removed, (set) => set.delete(removed), isTouched);
    if (added !== undefined) this.#forEach(added, (set) => set.add(added), isTouched);
  }

  /** Marks a destination that passed from one service port to another. */
  touch(key: string): void {
    const known = this.#known.get(key);
    if (known !== undefined) this.#touched.set(key, known.place);
  }

  takeTouched(winnerAt: WinnerAt): readonly UdpDestination[] {
    const touched = [...this.#touched.values()];
    this.#touched = new Map();
    return touched.map((place) => this.#destination(place, winnerAt));
  }

  all(winnerAt: WinnerAt): readonly UdpDestination[] {
    return [...this.#known.values()].map(({ place }) => this.#destination(place, winnerAt));
  }

  /**
   * Destinations on loopback have no claims, so the endpoints of all their service ports may answer. Otherwise returns
   * the winner's own set, because thousands of destinations of one Service share it.
   */
  #destination(place: UdpPlace, winnerAt: WinnerAt): UdpDestination {
    const winner = winnerAt(place.key);
    if (winner?.udpFlows !== undefined) return { ...place, answers: winner.udpFlows.answers };
    const flows = winner === undefined ? [...(this.#known.get(place.key)?.flows ?? [])] : [];
    return { ...place, answers: new Set(flows.flatMap(({ answers }) => [...answers])) };
  }

  #forEach(flows: UdpFlows, change: (claims: Set<UdpFlows>) => void, isTouched: boolean): void {
    for (const place of flows.destinations) {
      const { key } = place;
      const known = this.#known.get(key) ?? { place, flows: new Set<UdpFlows>() };
      change(known.flows);
      if (known.flows.size === 0) this.#known.delete(key);
      else this.#known.set(key, known);
      if (isTouched) this.#touched.set(key, place);
    }
  }
}

function sameFlows(left: UdpFlows, right: UdpFlows): boolean {
  const keyOf = ({ destinations }: UdpFlows): string =>
    destinations.map(({ key }) => key).join(",");
  return keyOf(left) === keyOf(right) && sameSet(left.answers, right.answers);
}
