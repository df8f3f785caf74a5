import { isDeepStrictEqual } from "node:util";
import type { NodeRecord } from "../../api/objects.ts";
import type { Clock } from "../../base/clock.ts";
import { cidrText, isWildcard } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { LiveConfig } from "../process/live-config.ts";
import { StartError } from "./prepare-kernel.ts";

/** How long to wait for the Node object and its addresses, as in kube-proxy. */
const addressWaitMs = 30_000;
/** How much longer to wait for the pod CIDRs, which another component allocates; the same as in kube-proxy. */
const podCidrWaitMs = 300_000;

export interface NodeWaitContext {
  readonly clock: Clock;
  readonly log: Logger;
  readonly live: LiveConfig;
  /**
   * Called once, when planning may start. By then the required facts about the node are known, or the wait has timed
   * out.
   */
  readonly onReady: () => void;
  /** Ends the program with an error because it cannot work or must restart. */
  readonly fail: (error: Error) => void;
}

/**
 * Waits for the Node object and its required fields: addresses if nodePortAddresses is `primary`, and pod CIDRs if
 * detectLocalMode is NodeCIDR. Does not wait if objects do not come from a cluster. Later changes to the node are
 * logged and cause a new plan.
 */
export class NodeWait {
  readonly #parts: NodeWaitContext;
  #record: NodeRecord | undefined;
  #isListed = false;
  #isReady = false;
  #cancel: () => void = () => {};

  constructor(parts: NodeWaitContext) {
    this.#parts = parts;
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  start(): void {
    if (this.#isReady) return;
    this.#cancel = this.#parts.clock.after(addressWaitMs, () => this.#addressesAreLate());
  }

  stop(): void {
    this.#cancel();
  }

  /** Call this when the list of Nodes has arrived, whether or not it contains this node. */
  noteListed(): void {
    this.#isListed = true;
    this.#check();
  }

  /**
   * If the pod CIDRs change and detectLocalMode is NodeCIDR, the program exits, as kube-proxy does, because rules
   * depend on them.
   */
  noteRecord(record: NodeRecord | undefined): void {
    const before = podCidrTexts(this.#record);
    if (this.#isReady) this.#report(record);
    this.#record = record ?? this.#record;
    const after = podCidrTexts(this.#record);
    if (
      this.#isFromCluster &&
      this.#needsPodCidrs &&
      this.#isReady &&
      before !== "" &&
      before !== after
    ) {
      const change = `from ${before} to ${after === "" ? "none" : after}`;
      const message = `The pod CIDRs of node ${this.#parts.live.current.nodeName} changed ${change}`;
      this.#parts.fail(new Error(`${message}; exiting to restart with the new ones`));
    }
    this.#check();
  }

  /**
   * Logs changed addresses or a deleted Node object. The program continues and plans again. kube-proxy 1.37 exits
   * here; earlier versions do nothing.
   */
  #report(record: NodeRecord | undefined): void {
    const { log, live } = this.#parts;
    const { nodeName: node } = live.current;
    const before = this.#record?.addresses ?? [];
    if (record === undefined) {
      if (this.#record !== undefined)
        log.warn("Node object deleted; using its last known state", { node });
      return;
    }
    const after = record.addresses;
    if (!isDeepStrictEqual(before, after))
      log.info("Node addresses changed", { node, before, after });
  }

  get #isFromCluster(): boolean {
    return this.#parts.live.current.objectsFrom.kind === "cluster";
  }

  get #needsPodCidrs(): boolean {
    return this.#parts.live.current.detectLocal.kind === "node-cidr";
  }

  #check(): void {
    if (!this.#isListed || this.#isReady) return;
    if (!this.#isFromCluster || this.#missing() === undefined) this.#finish();
  }

  /** The first missing field that planning needs, or undefined if none is missing. */
  #missing(): "addresses" | "pod CIDRs" | undefined {
    const { nodePortAddresses, bindAddress } = this.#parts.live.current;
    const { addresses = [], podCidrs = [] } = this.#record ?? {};
    if (this.#needsPodCidrs && podCidrs.length === 0) return "pod CIDRs";
    const needsAddresses = nodePortAddresses.kind === "primary" && isWildcard(bindAddress);
    return needsAddresses && addresses.length === 0 ? "addresses" : undefined;
  }

  #addressesAreLate(): void {
    const { clock, log, live } = this.#parts;
    const { nodeName: node } = live.current;
    const missing = this.#missing();
    if (missing === "pod CIDRs") {
      log.warn("Waiting for the node's pod CIDRs", { node });
      this.#cancel = clock.after(podCidrWaitMs, () => this.#podCidrsAreLate());
      return;
    }
    const event =
      this.#record === undefined
        ? "Timed out waiting for the Node object, continuing without it"
        : "Node object has no addresses, continuing without them";
    log.error(event, { node });
    this.#finish();
  }

  #podCidrsAreLate(): void {
    const { live, fail } = this.#parts;
    const why = this.#record === undefined ? "the node does not exist" : "it has no pod CIDR";
    fail(
      new StartError(
        `Cannot start with detectLocalMode NodeCIDR: timed out waiting for node ${live.current.nodeName}: ${why}; ` +
          "let the controller manager allocate pod CIDRs (--allocate-node-cidrs), or set a different detectLocalMode",
      ),
    );
  }

  #finish(): void {
    this.#cancel();
    this.#isReady = true;
    this.#parts.onReady();
  }
}

function podCidrTexts(record: NodeRecord | undefined): string {
  return (record?.podCidrs ?? []).map(cidrText).join(",");
}
