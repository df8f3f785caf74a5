import type { Command } from "./config.ts";
import type { ConfigProblem } from "./config-error.ts";
import type { ConfigNotice } from "./notice.ts";

/** What decides over an empty proxy mode. */
export interface ModeChoice {
  readonly mode: string;
  /** There is a configuration file. */
  readonly hasFile: boolean;
  readonly command: Command;
  readonly isObserveOnly: boolean;
}

const toDo =
  "write mode: ipvs, or pass --proxy-mode=ipvs, to serve with IPVS; otherwise run kube-proxy";

/**
 * An empty mode in a file written for kube-proxy, as kubeadm writes it, means iptables. Serving such a cluster by IPVS is
 * a decision that its operator has not made.
 */
export function emptyModeProblems(choice: ModeChoice): readonly ConfigProblem[] {
  if (!isOpen(choice) || !choice.hasFile || isHarmless(choice)) return [];
  const reason = `means iptables in kube-proxy's configuration, and kube-ipvs has mode ipvs only; ${toDo}`;
  return [{ path: "mode", value: "", reason }];
}

/** Said where an empty mode does no harm. Clean-up removes what ipvs mode left, whatever mode runs here by now. */
export function emptyModeNotices(choice: ModeChoice): readonly ConfigNotice[] {
  if (!isOpen(choice) || choice.command === "clean-up") return [];
  if (!choice.hasFile) {
    return [{ level: "info", event: "No proxy mode chosen, using ipvs", keys: {} }];
  }
  const reason = `kube-proxy takes it for iptables, and kube-ipvs does not start with it; ${toDo}`;
  const event = "Proxy mode in the configuration file is empty";
  return [{ level: "warn", event, keys: { reason }, ignored: "mode" }];
}

function isOpen({ mode }: ModeChoice): boolean {
  return mode === "";
}

/** Neither the kernel nor the node is changed, or only what ipvs mode left is removed. */
function isHarmless({ command, isObserveOnly }: ModeChoice): boolean {
  return isObserveOnly || !(command === "run" || command === "init-only");
}
