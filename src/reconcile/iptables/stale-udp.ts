import type { Clock } from "../../base/clock.ts";
import type { Conntrack } from "../../kernel/kernel.ts";
import type { UdpDestination } from "../../plan/iptables/udp-destinations.ts";
import { deleteStaleFlows } from "../apply/delete-stale-flows.ts";
import type { ConntrackPass } from "../apply/outcome.ts";

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
    const pending = [...this.#pending.values()];
    const passes: ConntrackPass[] = [];
    await deleteStaleFlows(
      pending.map(({ address: destination, port }) => ({ destination, destinationPort: port })),
      new Map(pending.map(({ key, answers }) => [key, answers])),
      {
        conntrack: this.#conntrack,
        clock: this.#clock,
        onPass: (pass) => void passes.push(pass),
      },
    );
    this.#pending.clear();
    return passes;
  }
}
