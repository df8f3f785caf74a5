import type { IpAddress } from "../../base/ip.ts";
import { sameSet } from "../../base/same-set.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import type { ServicePortRules } from "./service-port-rules.ts";
import type { UdpFlows } from "./udp-flows.ts";

/** An address and port to which clients send by UDP, and who may answer there. */
export interface UdpDestination {
  /** As {@link virtualServerKey} has it. */
  readonly key: string;
  readonly address: IpAddress;
  readonly port: number;
  /** `address:port`; empty: nobody any more. */
  readonly answers: ReadonlySet<string>;
}

/** UDP destinations of all Services, with those marked whose answers changed. */
export class UdpDestinations {
  /** Several service ports may share one. */
  readonly #flowsByKey = new Map<string, Set<UdpFlows>>();
  #touched = new Map<string, Omit<UdpDestination, "answers">>();

  replace(before: readonly ServicePortRules[], after: readonly ServicePortRules[]): void {
    const removed = flowsOf(before);
    const added = flowsOf(after);
    // Planned again and the same: nothing to look for.
    const stays = (flows: UdpFlows): boolean =>
      removed.some((one) => sameFlows(one, flows)) && added.some((one) => sameFlows(one, flows));
    for (const flows of removed) this.#forEach(flows, (set) => set.delete(flows), !stays(flows));
    for (const flows of added) this.#forEach(flows, (set) => set.add(flows), !stays(flows));
  }

  takeTouched(): readonly UdpDestination[] {
    const touched = [...this.#touched.values()];
    this.#touched = new Map();
    return touched.map((destination) => {
      const claims = [...(this.#flowsByKey.get(destination.key) ?? [])];
      return { ...destination, answers: new Set(claims.flatMap(({ answers }) => [...answers])) };
    });
  }

  #forEach(flows: UdpFlows, change: (claims: Set<UdpFlows>) => void, isTouched: boolean): void {
    for (const { address, port } of flows.destinations) {
      const key = virtualServerKey({ protocol: "UDP", address, port });
      const claims = this.#flowsByKey.get(key) ?? new Set<UdpFlows>();
      change(claims);
      if (claims.size === 0) this.#flowsByKey.delete(key);
      else this.#flowsByKey.set(key, claims);
      if (isTouched) this.#touched.set(key, { key, address, port });
    }
  }
}

function flowsOf(servicePorts: readonly ServicePortRules[]): readonly UdpFlows[] {
  return servicePorts.flatMap(({ udpFlows }) => (udpFlows === undefined ? [] : [udpFlows]));
}

function sameFlows(left: UdpFlows, right: UdpFlows): boolean {
  const keyOf = ({ destinations }: UdpFlows): string =>
    destinations.map(({ address, port }) => `${address} ${port}`).join(",");
  return keyOf(left) === keyOf(right) && sameSet(left.answers, right.answers);
}
