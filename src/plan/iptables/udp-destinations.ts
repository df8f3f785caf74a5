import type { IpAddress } from "../../base/ip.ts";
import { sameSet } from "../../base/same-set.ts";
import type { ServicePortRules } from "./service-port-rules.ts";
import type { UdpFlows, UdpPlace } from "./udp-flows.ts";

/** An address and port to which clients send by UDP, and who may answer there. */
export interface UdpDestination {
  /** As `virtualServerKey` has it. */
  readonly key: string;
  readonly address: IpAddress;
  readonly port: number;
  /** `address:port`; empty: nobody any more. */
  readonly answers: ReadonlySet<string>;
}

/** The service port that has an address and port which several claim; undefined: nobody claims it. */
export type WinnerAt = (key: string) => ServicePortRules | undefined;

interface Known {
  readonly place: UdpPlace;
  /** Of service ports that ask for it. */
  readonly flows: Set<UdpFlows>;
}

/** UDP destinations of all Services, with those marked whose answers changed. */
export class UdpDestinations {
  readonly #known = new Map<string, Known>();
  #touched = new Map<string, UdpPlace>();

  /** What one service port wanted, and wants. */
  replace(before: ServicePortRules | undefined, after: ServicePortRules | undefined): void {
    const [removed, added] = [before?.udpFlows, after?.udpFlows];
    // If they are the same, no flow has to be looked for.
    const isTouched = removed === undefined || added === undefined || !sameFlows(removed, added);
    if (removed !== undefined) this.#forEach(removed, (set) => set.delete(removed), isTouched);
    if (added !== undefined) this.#forEach(added, (set) => set.add(added), isTouched);
  }

  /** It went from one service port to another. */
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

  /** If nobody claims it, on loopback, each of them may answer. Thousands of destinations share the answers of one Service. */
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
