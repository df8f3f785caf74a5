/** Computes the result of a fresh start on an empty kernel, with the daemon on a fake kernel. */
import type { Holders } from "../../../src/plan/claims/claim.ts";
import type { KernelState } from "../../golden/kernel-state.ts";
import { runCommand } from "../fake-kernel/operator-commands.ts";
import { FakeNode } from "../fake-node.ts";
import type { NamedObject } from "../memory-source.ts";
import type { WalkSettings } from "./walk-step.ts";

export interface Beginning {
  readonly objects: readonly NamedObject[];
  readonly settings: WalkSettings;
  /** The commands that were previously run on the node. */
  readonly commands: readonly string[];
  /** Owners of contested addresses, which depend on earlier events. */
  readonly held: Holders;
}

export async function planFromScratch(beginning: Beginning): Promise<KernelState> {
  const node = new FakeNode(flagsOf(beginning.settings), beginning.held);
  for (const command of beginning.commands) {
    if (!runCommand(node.kernel, command)) throw new Error(`The fake kernel rejects: ${command}`);
  }
  node.source.apply(...beginning.objects.toReversed());
  await node.start();
  await node.settle();
  const state = await node.state();
  await node.stop();
  return state;
}

/** The value of `kubeIpvs.portRangeMarks` in all walks. */
export const portRangeMarks = "0x3fff0000";

/** Converts settings to the program's flags. */
export function flagsOf(settings: WalkSettings): Readonly<Record<string, string>> {
  const { scheduler, excludeCidrs, nodePortAddresses } = settings;
  const { unboundAddresses, masqueradeNodeToLocal } = settings;
  return {
    "ipvs-scheduler": scheduler,
    "ipvs-exclude-cidrs": excludeCidrs.join(","),
    "nodeport-addresses": nodePortAddresses.join(","),
    "kube-ipvs-unbound-addresses": unboundAddresses.join(","),
    "kube-ipvs-masquerade-node-to-local": String(masqueradeNodeToLocal),
    "kube-ipvs-manual-weights": "repair",
    "kube-ipvs-port-range-marks": portRangeMarks,
  };
}
