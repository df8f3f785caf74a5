import type { Clock } from "../../base/clock.ts";
import { familyOf, type IpFamily, ipFamilies } from "../../base/ip.ts";
import type { Conntrack } from "../../kernel/kernel.ts";
import type { UdpDestination } from "../../plan/iptables/udp-destinations.ts";
import type { FlowSelection } from "../../state/flow.ts";
import type { ConntrackPass } from "../apply/outcome.ts";
import { staleFlows } from "../apply/stale-flows.ts";

/** More destinations than this, and the flows of the family are listed once, all of them. */
const maxSelections = 64;

/** Deletes tracked UDP flows that lead to an endpoint that is gone, or to nobody. What could not be done is kept. */
export class StaleUdp {
  readonly #conntrack: Conntrack;
  readonly #clock: Clock;
  readonly #pending = new Map<string, UdpDestination>();

  constructor(conntrack: Conntrack, clock: Clock) {
    this.#conntrack = conntrack;
    this.#clock = clock;
  }

  /** Rejects where the kernel cannot be asked. */
  async clean(touched: readonly UdpDestination[]): Promise<readonly ConntrackPass[]> {
    for (const destination of touched) this.#pending.set(destination.key, destination);
    if (this.#pending.size === 0) return [];
    const passes: ConntrackPass[] = [];
    for (const family of ipFamilies) {
      const ofFamily = [...this.#pending.values()].filter(
        ({ address }) => familyOf(address) === family,
      );
      if (ofFamily.length > 0) passes.push(await this.#cleanFamily(family, ofFamily));
    }
    this.#pending.clear();
    return passes;
  }

  async #cleanFamily(
    family: IpFamily,
    destinations: readonly UdpDestination[],
  ): Promise<ConntrackPass> {
    const beganMs = this.#clock.monotonicMs();
    const allowed = new Map(destinations.map(({ key, answers }) => [key, answers]));
    const selections: readonly (FlowSelection | undefined)[] =
      destinations.length > maxSelections
        ? [undefined]
        : destinations.map(({ address: destination, port: destinationPort }) => ({
            destination,
            destinationPort,
          }));
    let deletedCount = 0;
    for (const selection of selections) {
      const flows = await this.#conntrack.listUdpFlows(family, selection);
      const stale = staleFlows(flows, allowed);
      if (stale.length > 0) deletedCount += await this.#conntrack.remove(stale);
    }
    return { family, elapsedMs: this.#clock.monotonicMs() - beganMs, deletedCount };
  }
}
