import { execFileSync } from "node:child_process";
import { isDeepStrictEqual } from "node:util";
import type { AskWeight } from "../../../src/daemon/weights/ask-weight.ts";
import type { Holders } from "../../../src/plan/claims/claim.ts";
import type { KernelState } from "../../golden/kernel-state.ts";
import { observeKernel } from "../../golden/observe.ts";
import { ClusterNode, type NodeSettings } from "../cluster-node.ts";
import type { NamedObject } from "../memory-source.ts";
import type { ApiObject } from "../objects.ts";
import { otherNode, portRangeMarks } from "./plan-from-scratch.ts";
import type { WalkSettings } from "./walk-step.ts";
import { differencesIn, type WalkNode } from "./walker.ts";

/**
 * Longer than eight periods, the longest pause after an expensive verification. After this time, the walk has failed.
 */
const settleMs = 90_000;

/** A walk's node in the lab's current network namespace: the built program on the real kernel. */
export class LabWalkNode implements WalkNode {
  /** No endpoint exists. */
  readonly askWeight: AskWeight = async () => ({ problem: "EHOSTUNREACH" });
  readonly #node: ClusterNode;

  private constructor(node: ClusterNode) {
    this.#node = node;
  }

  static async build(): Promise<LabWalkNode> {
    return new LabWalkNode(await ClusterNode.build([otherNode as unknown as ApiObject]));
  }

  get isRunning(): boolean {
    return this.#node.isRunning;
  }

  /** The end of the log, for a failure message. */
  get tail(): string {
    return this.#node.tail();
  }

  apply(object: NamedObject): void {
    this.#node.api.apply(object as unknown as ApiObject);
  }

  delete(object: NamedObject): void {
    this.#node.api.delete(object as unknown as ApiObject);
  }

  async configure(settings: WalkSettings): Promise<void> {
    this.#node.configure(nodeSettings(settings));
  }

  start(): Promise<void> {
    return this.#node.start();
  }

  stop(): Promise<void> {
    return this.#node.stop("SIGTERM");
  }

  /** Kills the program at any point. */
  kill(): Promise<void> {
    return this.#node.stop("SIGKILL");
  }

  run(command: string): boolean {
    const [program = "", ...argv] = command.split(" ");
    try {
      execFileSync(program, argv, { stdio: ["ignore", "ignore", "ignore"] });
      return true;
    } catch {
      return false;
    }
  }

  /** The state that the fake kernel also has. */
  async state(): Promise<KernelState> {
    const { ipvs, ipset, iptables, ip6tables, addresses } = await observeKernel([]);
    const rules = { iptables: numbered(iptables), ip6tables: numbered(ip6tables) };
    // Only ipvsadm prints the kind of tunnel, which is always the same.
    const servers = ipvs?.replaceAll(" --tun-type ipip", "");
    return { ipvs: servers, ipset, ...rules, addresses } as KernelState;
  }

  settle(): Promise<void> {
    return this.#node.verified(2);
  }

  async settleAs(expected: (held: Holders) => Promise<KernelState>): Promise<KernelState> {
    const deadlineMs = performance.now() + settleMs;
    let held = this.#node.holders();
    let state = await expected(held);
    for (;;) {
      // The record is written shortly after the kernel.
      const now = this.#node.holders();
      if (!isDeepStrictEqual(now, held)) state = await expected(now);
      held = now;
      const isReached = differencesIn(state, await this.state()).length === 0;
      // The walker reports the difference.
      if (isReached || performance.now() > deadlineMs) return state;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }

  close(): Promise<void> {
    return this.#node.close();
  }
}

function nodeSettings(settings: WalkSettings): NodeSettings {
  const { scheduler, excludeCIDRs, nodePortAddresses } = settings;
  const { unboundAddresses, masqueradeNodeToLocal, tunnelForwarding } = settings;
  const { weightRequestPeriod, virtualAddresses } = settings;
  return {
    nodePortAddresses,
    ipvs: { scheduler, excludeCIDRs: excludeCIDRs },
    kubeIpvs: {
      ...{ verificationPeriod: "1s", ruleCheckPeriod: "1s", manualWeights: "repair" },
      ...{ portRangeMarks, unboundAddresses, masqueradeNodeToLocal, tunnelForwarding },
      ...{ weightRequestPeriod, virtualAddresses },
    },
  };
}

/** If /etc/protocols exists, iptables-save prints the names of protocols for which the fake kernel prints numbers. */
function numbered(rules: string | undefined): string {
  return (rules ?? "").replaceAll("-p ipencap ", "-p 4 ").replaceAll("-p ipv6 ", "-p 41 ");
}
