import type { EndpointSliceRecord, NodeRecord, ServiceRecord } from "../../api/objects.ts";
import type { Nodes, ResourceKind, ServerEndpoint } from "../../api/source.ts";
import type { Clock } from "../../base/clock.ts";
import type { IpAddress, IpFamily } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import { none } from "../../base/none.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import type { ChangeTracker } from "../../model/change-tracker.ts";
import type { ClaimMemory } from "../../plan/claims/claim-memory.ts";
import type { HolderRecord } from "../../plan/claims/holder-record.ts";
import type { NodeFacts } from "../../plan/tuning-facts.ts";
import type { SyncReport } from "../../reconcile/report.ts";
import type { ServiceHealthServers } from "../http/service-health.ts";
import { KnownNode } from "../node/known-node.ts";
import { apiServerService, type NetworkReader, sliceEndpoints } from "../node/node-network.ts";
import { NodeWait } from "../node/node-wait.ts";
import { OtherNodes, type OtherNodesContext } from "../node/other-nodes.ts";
import {
  type ServiceChange,
  UncheckedClaims,
  type WaitingClaim,
} from "../node/unchecked-claims.ts";
import type { LiveConfig } from "../process/live-config.ts";

/** Dependencies that a loop passes on to its input. */
export interface ClusterInputCollaborators {
  readonly kernel: NetworkReader;
  readonly clock: Clock;
  readonly log: Logger;
  /** The API servers that the connection uses. Undefined if there is no connection. */
  readonly apiServers?: () => readonly ServerEndpoint[];
  /** The source that lists Nodes. If undefined, other Nodes are unknown. */
  readonly source?: OtherNodesContext["source"];
  /** Called once before the first plan, with the Node object if it exists. */
  readonly onNodeReady?: (node: NodeRecord | undefined) => void;
  /** Ends the program because it cannot continue. */
  readonly fail?: (error: Error) => void;
}

/** The loop's dependencies in any mode. */
export interface LoopContext extends ClusterInputCollaborators {
  /** If undefined, health-check node ports are not served. */
  readonly healthChecks?: ServiceHealthServers;
  /** If undefined, the owner of a contested address is known after a restart only if kernel state shows it. */
  readonly holderRecord?: HolderRecord;
  /** If undefined, all claims are treated as equally old, and all of them are admitted. */
  readonly claimMemory?: ClaimMemory;
  /** Called after each sync. */
  readonly onReport?: (report: SyncReport) => void;
  /** CPU time used by the process, in milliseconds. If undefined, checks are paced by elapsed time. */
  readonly processorMs?: () => number;
}

/** The loop's dependencies in modes in which the kernel forwards packets. */
export interface KernelLoopContext extends LoopContext {
  readonly kernel: Kernel;
  readonly healthChecks: ServiceHealthServers;
}

export interface ClusterInputOptions {
  readonly live: LiveConfig;
  readonly families: readonly IpFamily[];
  /** Receives the changed objects. */
  readonly tracker: Pick<
    ChangeTracker,
    "noteService" | "noteSlice" | "pendingCount" | "slicesOf" | "serviceCount" | "sliceCount"
  >;
  readonly reporter: {
    serviceChanged(families: readonly IpFamily[], pendingCount: number): void;
    sliceChanged(pendingCount: number): void;
    nodeChanged(node: NodeRecord | undefined): void;
  };
  /** Called with each Service before the tracker receives it. */
  readonly onService?: ChangeTracker["noteService"];
  /** Called when something must be planned again, and whenever {@link ClusterInput.isReady} may have become true. */
  readonly onChange: () => void;
  /** Called when all Services and EndpointSlices are listed. */
  readonly onListed?: (counts: {
    readonly services: number;
    readonly endpointSlices: number;
  }) => void;
  /** Reads the addresses that an earlier run served. */
  readonly readServed: () => Promise<Iterable<IpAddress>>;
  /** See `OtherNodesContext.areWeightsDefault`. */
  readonly areWeightsDefault?: () => boolean;
}

/**
 * Collects the cluster and Node state for any mode's loop, and decides whether it is sufficient for planning.
 */
export class ClusterInput {
  readonly #parts: ClusterInputOptions;
  /** Resources that are not completely listed yet. Nothing is planned until all of them are listed. */
  readonly #unlisted = new Set<ResourceKind>(["services", "endpointslices"]);
  readonly #nodeWait: NodeWait;
  readonly #otherNodes: OtherNodes;
  readonly #claims = new UncheckedClaims();
  readonly node: KnownNode;

  constructor(collaborators: ClusterInputCollaborators, parts: ClusterInputOptions) {
    this.#parts = parts;
    this.#nodeWait = this.#makeNodeWait(collaborators);
    this.#otherNodes = this.#watchOtherNodes(collaborators);
    const { live, families, tracker } = parts;
    this.node = new KnownNode({
      kernel: collaborators.kernel,
      live,
      families,
      apiServers: () => [
        ...(collaborators.apiServers?.() ?? []),
        ...sliceEndpoints(tracker.slicesOf(apiServerService)),
      ],
      otherNodes: this.#otherNodes,
    });
  }

  /** Whether all objects are listed, and the facts that planning needs about this Node and other Nodes are known. */
  get isReady(): boolean {
    return this.#areListed && this.#nodeWait.isReady && this.#otherNodes.isReady;
  }

  /** Whether the facts about this node are known, but the lists are still arriving. */
  get isListing(): boolean {
    return !this.#areListed && this.#nodeWait.isReady;
  }

  /**
   * External IPs that are not served because Nodes cannot be listed. Empty while Nodes can be listed, because a new
   * external IP is then pending for only about a second.
   */
  get waitingClaims(): readonly WaitingClaim[] {
    return this.#otherNodes.hasFailed ? this.#claims.waiting : none;
  }

  /** Facts about all Nodes, for planning. */
  get nodeFacts(): NodeFacts {
    const { weights, groups, addresses } = this.#otherNodes.traits;
    return { nodeWeights: weights, nodeGroups: groups, nodeAddresses: addresses };
  }

  start(): void {
    this.#nodeWait.start();
  }

  stop(): void {
    this.#nodeWait.stop();
    this.#otherNodes.stop();
  }

  /** Call this when the configuration has changed. */
  reconfigured(): void {
    this.node.noteStale();
    this.#otherNodes.noteNeeds();
  }

  noteService(previous: ServiceRecord | undefined, current: ServiceRecord | undefined): void {
    this.#otherNodes.noteService(previous, current);
    this.#noteAdmitted(this.#claims.admit([previous, current], this.#otherNodes.pending));
  }

  #noteAdmitted([previous, current]: ServiceChange): void {
    const { tracker, reporter, families, onChange, onService } = this.#parts;
    onService?.(previous, current);
    tracker.noteService(previous, current);
    reporter.serviceChanged(families, tracker.pendingCount);
    onChange();
  }

  noteSlice(
    previous: EndpointSliceRecord | undefined,
    current: EndpointSliceRecord | undefined,
  ): void {
    const { tracker, reporter, onChange } = this.#parts;
    tracker.noteSlice(previous, current);
    if (current !== undefined) this.#otherNodes.noteSlice(current);
    reporter.sliceChanged(tracker.pendingCount);
    // A slice may start or stop belonging to the API servers' Service.
    const owners = [previous?.service, current?.service];
    if (owners.includes(apiServerService)) this.node.noteStale();
    onChange();
  }

  noteNode(node: NodeRecord | undefined): void {
    this.#parts.reporter.nodeChanged(node);
    this.node.noteRecord(node);
    if (node !== undefined) this.#otherNodes.noteOwn(node);
    this.#nodeWait.noteRecord(node);
    this.#parts.onChange();
  }

  /** Records the list of all Nodes. Called only by sources that report it. */
  noteNodes(nodes: Nodes): void {
    this.#otherNodes.noteNodes(nodes);
  }

  noteSynced(kind: ResourceKind): void {
    if (kind === "services") this.#otherNodes.noteListed();
    if (kind === "nodes") this.#nodeWait.noteListed();
    else if (this.#unlisted.delete(kind) && this.#areListed) this.#reportLists();
    this.#parts.onChange();
  }

  get #areListed(): boolean {
    return this.#unlisted.size === 0;
  }

  #reportLists(): void {
    const { serviceCount: services, sliceCount: endpointSlices } = this.#parts.tracker;
    this.#parts.onListed?.({ services, endpointSlices });
  }

  #watchOtherNodes({ source = {}, clock, log }: ClusterInputCollaborators): OtherNodes {
    const { live, onChange, areWeightsDefault = () => false } = this.#parts;
    const { nodeName, nodeAddressPeriodMs: periodMs } = live.current;
    return new OtherNodes({
      ...{ source, clock, log, nodeName, periodMs, areWeightsDefault },
      random: Math.random,
      readServed: this.#parts.readServed,
      onChecked: () => {
        const changes = this.#claims.recheck(this.#otherNodes.pending);
        for (const change of changes) this.#noteAdmitted(change);
      },
      onChange: () => {
        this.node.noteStale();
        onChange();
      },
    });
  }

  #makeNodeWait(collaborators: ClusterInputCollaborators): NodeWait {
    const { clock, log, onNodeReady = () => {}, fail = () => {} } = collaborators;
    const { live, onChange } = this.#parts;
    return new NodeWait({
      ...{ clock, log, live, fail },
      onReady: () => {
        onNodeReady(this.node.record);
        onChange();
      },
    });
  }
}
