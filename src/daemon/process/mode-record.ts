/**
 * The state file section that records which modes have run on this node and may have leftovers. Chains of iptables mode
 * have the same names as kube-proxy's. After a mode change, only this record shows that they are ours to remove.
 */
import type { Config } from "../../config/config.ts";
import type { StateFile } from "./state-file.ts";

type Mode = Config["mode"];

const modes: readonly Mode[] = ["ipvs", "iptables", "userspace"];

export interface ModeRecord {
  /** Modes of earlier runs. They may have leftovers in the kernel. */
  readonly earlier: ReadonlySet<Mode>;
  /** Call this before the first write to the kernel. */
  begin(mode: Mode): void;
  /** Call this when the leftovers of the other modes have been removed. */
  tidied(mode: Mode): void;
}

export function modeRecordIn(state: StateFile): ModeRecord {
  const recorded = state.content["modes"];
  const earlier = new Set(
    Array.isArray(recorded) ? modes.filter((mode) => recorded.includes(mode)) : [],
  );
  return {
    earlier,
    begin: (mode) => state.keep({ modes: () => [...new Set([...earlier, mode])] }),
    tidied: (mode) => state.keep({ modes: () => [mode] }),
  };
}
