import type { EventRecorder } from "../../api/event.ts";
import type { NodeRecord } from "../../api/objects.ts";
import type { Clock } from "../../base/clock.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Metrics } from "../../metrics/prometheus-metrics.ts";
import type { Trigger } from "../../model/change-tracker.ts";
import { type TrafficPolicy, trafficPolicies } from "../../model/topology.ts";
import type { ProxyHealth } from "./proxy-health.ts";

export interface LoopReporterParts {
  readonly metrics: Metrics;
  readonly health: ProxyHealth;
  readonly clock: Clock;
  readonly log: Logger;
  /** Absent: nobody reads events. */
  readonly events?: EventRecorder;
  readonly nodeName?: string;
}

/** What the loops of modes ipvs and iptables report alike: what comes from the cluster, and what becomes of it. */
export class LoopReporter {
  readonly #metrics: Metrics;
  readonly #health: ProxyHealth;
  readonly #clock: Clock;

  constructor({ metrics, health, clock }: LoopReporterParts) {
    this.#metrics = metrics;
    this.#health = health;
    this.#clock = clock;
  }

  /** The loop begins: health is judged from now on. */
  started(families: readonly IpFamily[]): void {
    for (const family of families) {
      this.#health.started(family);
      this.#metrics.syncQueued(family);
    }
  }

  /** A sync is asked for. */
  queued(families: readonly IpFamily[]): void {
    for (const family of families) {
      this.#health.queued(family);
      this.#metrics.syncQueued(family);
    }
  }

  /** Counted once for each family, as upstream's two proxiers do. */
  serviceChanged(families: readonly IpFamily[], pendingCount: number): void {
    this.#metrics.serviceChanged(families.length, pendingCount);
  }

  sliceChanged(pendingCount: number): void {
    this.#metrics.endpointSliceChanged(pendingCount);
  }

  nodeChanged(node: NodeRecord | undefined): void {
    if (node !== undefined) this.#health.setNodeEligible(node.isEligible);
  }

  protected countWithoutLocal(
    desired: { withoutLocalEndpoints(policy: TrafficPolicy, family: IpFamily): number },
    families: readonly IpFamily[],
  ): void {
    for (const family of families) {
      for (const policy of trafficPolicies) {
        const count = desired.withoutLocalEndpoints(policy, family);
        this.#metrics.noLocalEndpoints(policy, family, count);
      }
    }
  }

  /** From the change in the cluster to the kernel. */
  protected observeLatency(triggers: readonly Trigger[]): void {
    const nowMs = this.#clock.nowMs();
    for (const { family, timeMs } of triggers) {
      this.#metrics.networkProgrammed(family, (nowMs - timeMs) / 1000);
    }
  }
}
