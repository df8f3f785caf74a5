/** Computes the result of a fresh start on an empty kernel, with the daemon on a fake kernel. */
import type { AskWeight } from "../../../src/daemon/weights/ask-weight.ts";
import type { Holders } from "../../../src/plan/claims/claim.ts";
import type { KernelState } from "../../golden/kernel-state.ts";
import { runCommand } from "../fake-kernel/operator-commands.ts";
import { FakeNode } from "../fake-node.ts";
import type { NamedObject } from "../memory-source.ts";
import { node } from "../objects.ts";
import type { WalkSettings } from "./walk-step.ts";

export interface Beginning {
  readonly objects: readonly NamedObject[];
  readonly settings: WalkSettings;
  /** The commands that were previously run on the node. */
  readonly commands: readonly string[];
  /** Owners of contested addresses, which depend on earlier events. */
  readonly held: Holders;
  /** If undefined, no settings ask for weights. */
  readonly askWeight?: AskWeight;
}

/** Longer than the verification period, the interval between drain checks, and four requests for each weight. */
export const quietMs = 90_000;

export async function planFromScratch(beginning: Beginning): Promise<KernelState> {
  const { settings, held, askWeight } = beginning;
  const fresh = new FakeNode(flagsOf(settings), { held, ...(askWeight && { askWeight }) });
  for (const command of beginning.commands) {
    if (!runCommand(fresh.kernel, command)) throw new Error(`The fake kernel rejects: ${command}`);
  }
  fresh.source.apply(...beginning.objects.toReversed());
  await fresh.start();
  fresh.source.reportNodes(otherNode);
  await fresh.settle();
  if (settings.weightRequestPeriod !== "0s") {
    // After a restart, answers are planned at once.
    await fresh.wait(quietMs);
    await fresh.restart();
    fresh.source.reportNodes(otherNode);
    await fresh.settle();
  }
  const state = await fresh.state();
  await fresh.stop();
  return state;
}

/** The value of `kubeIpvs.portRangeMarks` in all walks. */
export const portRangeMarks = "0x3fff0000";

/** Endpoints may be on this Node. */
export const otherNode = node({
  name: "node-2",
  addresses: ["192.168.10.20", "fd00:10::20"],
  podCidrs: ["10.244.2.0/24", "fd00:244:2::/64"],
}) as unknown as NamedObject;

/** Converts settings to the program's flags. */
export function flagsOf(settings: WalkSettings): Readonly<Record<string, string>> {
  const { scheduler, excludeCIDRs, nodePortAddresses } = settings;
  const { unboundAddresses, masqueradeNodeToLocal, tunnelForwarding } = settings;
  const { weightRequestPeriod, virtualAddresses, mode } = settings;
  return {
    "ipvs-scheduler": scheduler,
    "ipvs-exclude-cidrs": excludeCIDRs.join(","),
    "nodeport-addresses": nodePortAddresses.join(","),
    "kube-ipvs-unbound-addresses": unboundAddresses.join(","),
    "kube-ipvs-masquerade-node-to-local": String(masqueradeNodeToLocal),
    "kube-ipvs-manual-weights": "repair",
    "kube-ipvs-port-range-marks": portRangeMarks,
    "kube-ipvs-tunnel-forwarding": String(tunnelForwarding),
    "kube-ipvs-weight-request-period": weightRequestPeriod,
    "kube-ipvs-virtual-addresses": virtualAddresses,
    "proxy-mode": mode,
    "kube-ipvs-rules": mode === "ipvs" ? settings.rules : "iptables",
    "iptables-min-sync-period": "0s",
  };
}
