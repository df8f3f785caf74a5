import { createHash } from "node:crypto";
import type { Clock } from "../../../base/clock.ts";
import { none } from "../../../base/none.ts";
import { Pace } from "../../../base/pace.ts";
import { UseCounts } from "../../../base/use-counts.ts";
import type { ClusterEvent } from "../../event.ts";
import type { EndpointSliceRecord } from "../../objects.ts";

/**
 * Average number of nodes that write an Event which every node could write. With 8, about one Event in 3,000 has no
 * writer.
 */
const writersPerEvent = 8;
/** Combined rate of Events about Services for all nodes: first a burst, then one per interval. */
const clusterBurst = 500;
const clusterIntervalMs = 100;
const nodeBurst = 25;

/**
 * Decides which Events about Services this node writes, so that the number of Events does not grow with the number of
 * nodes. Only nodes named in EndpointSlices are counted.
 */
export class EventShare {
  readonly #clock: Clock;
  readonly #nodeName: string;
  /** Number of endpoints by node name. */
  readonly #endpoints = new UseCounts<string>();
  readonly #pace = new Pace();

  constructor(clock: Clock, nodeName: string) {
    this.#clock = clock;
    this.#nodeName = nodeName;
  }

  noteSlice(
    previous: EndpointSliceRecord | undefined,
    current: EndpointSliceRecord | undefined,
  ): void {
    this.#endpoints.replace(nodeNamesIn(previous), nodeNamesIn(current));
  }

  /**
   * Returns whether this node writes the Event. If so, deducts the Event from this node's share. Events about Nodes are
   * rare and always written.
   */
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

  /** A hash of the names decides, so different Events have different writers and nodes need not coordinate. */
  #isWriter({ reason, subject }: ClusterEvent, nodeCount: number): boolean {
    const text = [this.#nodeName, reason, subject.namespace, subject.name].join("/");
    const place = createHash("sha256").update(text).digest().readUInt32BE() / 2 ** 32;
    return place * nodeCount < writersPerEvent;
  }
}

function nodeNamesIn(slice: EndpointSliceRecord | undefined): readonly string[] {
  return (slice?.endpoints ?? none).map(({ nodeName }) => nodeName).filter((name) => name !== "");
}
