import type { EndpointSliceRecord, NodeRecord, ServiceRecord } from "../../src/api/objects.ts";
import type { Nodes, Refusal, ResourceKind, SourceListener } from "../../src/api/source.ts";

type AnyRecord = ServiceRecord | EndpointSliceRecord | NodeRecord;

/** Much longer than a busy machine needs. */
const hangMs = 120_000;

/** Records what a source reports: `+services default/web`, with `~` for a change and `-` for a removal. */
export class RecordingListener implements SourceListener {
  readonly events: string[] = [];
  readonly refusals: Refusal[] = [];
  /** The current records after all events, by name in one map per kind. */
  readonly services: Map<string, ServiceRecord> = new Map<string, ServiceRecord>();
  readonly slices: Map<string, EndpointSliceRecord> = new Map<string, EndpointSliceRecord>();
  readonly nodes: Map<string, NodeRecord> = new Map<string, NodeRecord>();
  /** All Nodes in the cluster, as last reported. */
  allNodes: Nodes | undefined;
  #wake = (): void => {};

  onNodes(nodes: Nodes): void {
    this.allNodes = nodes;
  }

  onService(previous: ServiceRecord | undefined, current: ServiceRecord | undefined): void {
    this.#note("services", this.services, previous, current);
  }

  onEndpointSlice(
    previous: EndpointSliceRecord | undefined,
    current: EndpointSliceRecord | undefined,
  ): void {
    this.#note("endpointslices", this.slices, previous, current);
  }

  onNode(previous: NodeRecord | undefined, current: NodeRecord | undefined): void {
    this.#note("nodes", this.nodes, previous, current);
  }

  onSynced(kind: ResourceKind): void {
    this.#push(`synced ${kind}`);
  }

  onRefusal(refusal: Refusal): void {
    this.refusals.push(refusal);
    this.#wake();
  }

  /** Returns the events since the last call. */
  take(): readonly string[] {
    return this.events.splice(0);
  }

  /** Returns the rejection messages since the last call. */
  takeRefusals(): readonly string[] {
    return this.refusals.splice(0).map((refusal) => refusal.message);
  }

  /**
   * Resolves as soon as `condition`, which is checked after each callback, is true. Fails after minutes without a
   * callback.
   */
  async until(condition: () => boolean): Promise<void> {
    const deadline = Date.now() + hangMs;
    while (!condition()) {
      const leftMs = deadline - Date.now();
      if (leftMs <= 0) throw new Error(`Timed out; events: ${this.events.join(", ")}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  /** Fails if the previous record is not the last reported one, which every source guarantees. */
  #note<T extends AnyRecord>(
    kind: ResourceKind,
    known: Map<string, T>,
    previous: T | undefined,
    current: T | undefined,
  ): void {
    const name = (current ?? previous)?.name ?? "";
    if (known.get(name) !== previous) throw new Error(`Wrong previous record for ${kind} ${name}`);
    if (current === undefined) known.delete(name);
    else known.set(name, current);
    const sign = previous === undefined ? "+" : "~";
    this.#push(`${current === undefined ? "-" : sign}${kind} ${name}`);
  }

  #push(event: string): void {
    this.events.push(event);
    this.#wake();
  }
}
