import { execFileSync } from "node:child_process";
import { isDeepStrictEqual } from "node:util";
import type { AskWeight } from "../../../src/daemon/weights/ask-weight.ts";
import type { Holders } from "../../../src/plan/claims/claim.ts";
import type { KernelState } from "../../golden/kernel-state.ts";
import { observeKernel } from "../../golden/observe.ts";
import { observeNftables } from "../../golden/observe-nftables.ts";
import { ClusterNode, type NodeSettings } from "../cluster-node.ts";
import type { NamedObject } from "../memory-source.ts";
import { shell } from "../netns/network-namespace.ts";
import type { ApiObject } from "../objects.ts";
import { patienceMs } from "../patience.ts";
import { flushNftSets } from "../rules-writer.ts";
import { otherNode, portRangeMarks } from "./plan-from-scratch.ts";
import { startSettings, type WalkSettings } from "./walk-step.ts";
import { differencesIn, type WalkNode } from "./walker.ts";

/** If the kernel has no nf_tables, walks do not move between writers of rules. */
const hasNftables: boolean =
  shell("nft 'add table ip probe; delete table ip probe' > /dev/null 2>&1 && echo yes || true") !==
  "";

/** A walk's node in the lab's current network namespace: the built program on the real kernel. */
export class LabWalkNode implements WalkNode {
  /** No endpoint exists. */
  readonly askWeight: AskWeight = async () => ({ problem: "EHOSTUNREACH" });
  readonly #node: ClusterNode;
  #settings = startSettings;
  /** How the last started program writes rules and sets. */
  #rules = startSettings.rules;

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
    this.#settings = { ...settings, ...(hasNftables ? {} : { rules: "iptables" }) };
    this.#node.configure(nodeSettings(this.#settings));
  }

  start(): Promise<void> {
    this.#rules = this.#settings.rules;
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
    const line = this.#rules === "nftables" ? inNftables(command) : command;
    try {
      execFileSync("sh", ["-c", line], { stdio: ["ignore", "ignore", "ignore"] });
      return true;
    } catch {
      return false;
    }
  }

  /** The state that the fake kernel also has. */
  async state(): Promise<KernelState> {
    const { ipvs, addresses, ...seen } = await observeKernel([]);
    const { ipset = "", iptables = "", ip6tables = "" } = seen;
    const isNft = this.#rules === "nftables";
    const used = isNft
      ? await observeNftables({ iptables, ip6tables })
      : { ipset, iptables, ip6tables };
    const unused = isNft
      ? [ipset, iptables, ip6tables].flatMap((text) => text.match(/^(?:create |:)KUBE-\S+/gm) ?? [])
      : hasNftables
        ? (shell("nft list tables").match(/^table ip6? kube-ipvs$/gm) ?? [])
        : [];
    return {
      // Only ipvsadm prints the kind of tunnel, which is always the same.
      ipvs: ipvs?.replaceAll(" --tun-type ipip", ""),
      addresses,
      ipset: used.ipset + unused.map((name) => `unused ${name}\n`).join(""),
      iptables: numbered(used.iptables),
      ip6tables: numbered(used.ip6tables),
    } as KernelState;
  }

  settle(): Promise<void> {
    return this.#node.verified(2);
  }

  async settleAs(expected: (held: Holders) => Promise<KernelState>): Promise<KernelState> {
    const deadlineMs = performance.now() + patienceMs;
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

/** Returns the command for nf_tables that has the effect of one for iptables or ipset. */
function inNftables(command: string): string {
  const [program, ...words] = command.split(" ");
  if (program === "iptables") {
    const [, table, , chain] = words;
    return `nft flush chain ip kube-ipvs ${table}-${chain}`;
  }
  if (program !== "ipset") return command;
  const [verb, set = "", entry = ""] = words;
  const family = set.startsWith("KUBE-6-") ? "ip6" : "ip";
  if (verb === "flush") return flushNftSets;
  const elements = entry
    .split(",")
    .flatMap((field) => (/^(?:tcp|udp|sctp):\d+$/.test(field) ? field.split(":") : field));
  return `nft ${verb === "add" ? "add" : "delete"} element ${family} kube-ipvs ${set} '{ ${elements.join(" . ")} }'`;
}

function nodeSettings(settings: WalkSettings): NodeSettings {
  const { scheduler, excludeCIDRs, nodePortAddresses } = settings;
  const { unboundAddresses, masqueradeNodeToLocal, tunnelForwarding } = settings;
  const { weightRequestPeriod, virtualAddresses, rules } = settings;
  return {
    nodePortAddresses,
    ipvs: { scheduler, excludeCIDRs: excludeCIDRs },
    kubeIpvs: {
      ...{ verificationPeriod: "1s", ruleCheckPeriod: "1s", manualWeights: "repair" },
      ...{ portRangeMarks, unboundAddresses, masqueradeNodeToLocal, tunnelForwarding },
      ...{ weightRequestPeriod, virtualAddresses, rules },
    },
  };
}

/** If /etc/protocols exists, iptables-save prints the names of protocols for which the fake kernel prints numbers. */
function numbered(rules: string | undefined): string {
  return (rules ?? "").replaceAll("-p ipencap ", "-p 4 ").replaceAll("-p ipv6 ", "-p 41 ");
}
