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

  replace(before: readonly ServicePortRules[], after: readonly ServicePortRules[]): void {
    const removed = flowsOf(before);
    const added = flowsOf(after);
    // Planned again and the same: nothing to look for.
    const stays = (flows: UdpFlows): boolean =>
      removed.some((one) => sameFlows(one, flows)) && added.some((one) => sameFlows(one, flows));
    for (const flows of removed) this.#forEach(flows, (set) => set.delete(flows), !stays(flows));
    for (const flows of added) this.#forEach(flows, (set) => set.add(flows), !stays(flows));
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

  /** Where nobody claims, on loopback, each of them may answer. */
  #destination(place: UdpPlace, winnerAt: WinnerAt): UdpDestination {
    const winner = winnerAt(place.key);
    const flows =
      winner === undefined ? [...(this.#known.get(place.key)?.flows ?? [])] : flowsOf([winner]);
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

function flowsOf(servicePorts: readonly ServicePortRules[]): readonly UdpFlows[] {
  return servicePorts.flatMap(({ udpFlows }) => (udpFlows === undefined ? [] : [udpFlows]));
}

function sameFlows(left: UdpFlows, right: UdpFlows): boolean {
  const keyOf = ({ destinations }: UdpFlows): string =>
    destinations.map(({ key }) => key).join(",");
  return keyOf(left) === keyOf(right) && sameSet(left.answers, right.answers);
}
