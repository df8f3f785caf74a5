import { familyOf, type IpFamily } from "../../../src/base/ip.ts";
import type { Conntrack } from "../../../src/kernel/kernel.ts";
import { type Flow, type FlowSelection, flowText, isSelected } from "../../../src/state/flow.ts";
import type { Operations } from "./operations.ts";

/** Tracked connections in memory. */
export class FakeConntrack implements Conntrack {
  readonly #operations: Operations;
  /** Tracked flows of both families and all protocols. Set by tests. */
  flows: readonly Flow[] = [];

  constructor(operations: Operations) {
    this.#operations = operations;
  }

  async listUdpFlows(family: IpFamily, selection?: FlowSelection): Promise<readonly Flow[]> {
    const isListed = (flow: Flow): boolean =>
      flow.protocol === "UDP" &&
      familyOf(flow.source) === family &&
      (selection === undefined || isSelected(flow, selection));
    return this.#operations.read("conntrack", "list-udp-flows", family, () =>
      this.flows.filter(isListed),
    );
  }

  async remove(flows: readonly Flow[]): Promise<number> {
    let removed = 0;
    for (const flow of flows) {
      const subject = flowText(flow);
      this.#operations.change({ facility: "conntrack", action: "remove", subject }, () => {
        const rest = this.flows.filter((present) => !isSameFlow(present, flow));
        removed += this.flows.length - rest.length;
        this.flows = rest;
      });
    }
    return removed;
  }
}

/** Compares the client's side, and the ID if one is given. */
function isSameFlow(present: Flow, wanted: Flow): boolean {
  const hasSameId = wanted.id === undefined || wanted.id === present.id;
  return (
    hasSameId &&
    present.protocol === wanted.protocol &&
    present.source === wanted.source &&
    present.sourcePort === wanted.sourcePort &&
    present.destination === wanted.destination &&
    present.destinationPort === wanted.destinationPort &&
    (present.zone ?? 0) === (wanted.zone ?? 0)
  );
}
