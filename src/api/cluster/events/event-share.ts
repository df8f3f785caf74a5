import { createHash } from "node:crypto";
import type { Clock } from "../../../base/clock.ts";
import { Pace } from "../../../base/pace.ts";
import type { ClusterEvent } from "../../event.ts";
import type { EndpointSliceRecord } from "../../objects.ts";

/** So many nodes write an Event that every node could write. With 8, one in 3,000 Events has no writer by chance. */
const writersPerEvent = 8;
/** Events about Services that all nodes together write: at once, and how far apart afterwards. */
const clusterBurst = 500;
const clusterIntervalMs = 100;
const nodeBurst = 25;

/**
 * Which Events about Services this node writes, so that the API server gets a bounded number of them however many nodes there
 * are. The number of nodes is that of the nodes that EndpointSlices name.
 */
export class EventShare {
  readonly #clock: Clock;
  readonly #nodeName: string;
  /** Endpoints by node. */
  readonly #endpoints = new Map<string, number>();
  readonly #pace = new Pace();

  constructor(clock: Clock, nodeName: string) {
    this.#clock = clock;
    this.#nodeName = nodeName;
  }

  noteSlice(
    previous: EndpointSliceRecord | undefined,
    current: EndpointSliceRecord | undefined,
  ): void {
    for (const { nodeName } of current?.endpoints ?? []) {
      if (nodeName !== "") this.#endpoints.set(nodeName, (this.#endpoints.get(nodeName) ?? 0) + 1);
    }
    for (const { nodeName } of previous?.endpoints ?? []) {
      const rest = (this.#endpoints.get(nodeName) ?? 1) - 1;
      if (rest > 0) this.#endpoints.set(nodeName, rest);
      else this.#endpoints.delete(nodeName);
    }
  }

  /** Events about Nodes are few. Takes one from this node's share. */
  take(event: ClusterEvent): boolean {
    if (event.subject.kind === "Node") return true;
    const nodeCount = Math.max(1, this.#endpoints.size);
    if (event.isSeenByAllNodes === true && !this.#isWriter(event, nodeCount)) return false;
    const rate = {
      intervalMs: nodeCount * clusterIntervalMs,
      burst: Math.max(1, Math.min(nodeBurst, Math.floor(clusterBurst / nodeCount))),
    };
    return this.#pace.take(this.#clock.monotonicMs(), rate);
  }

  /** Chosen by name, so that each Event has other writers and no node has to know who they are. */
  #isWriter({ reason, subject }: ClusterEvent, nodeCount: number): boolean {
    const text = [this.#nodeName, reason, subject.namespace, subject.name].join("/");
    const place = createHash("sha256").update(text).digest().readUInt32BE() / 2 ** 32;
    return place * nodeCount < writersPerEvent;
  }
}
