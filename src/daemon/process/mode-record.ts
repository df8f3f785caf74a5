/**
 * The section of the state file that says which modes ran on this node since it was last put in order: chains of mode
 * iptables are called as kube-proxy's, and only this record says after a change of mode that they are ours to remove.
 */
import type { Config } from "../../config/config.ts";
import type { StateFile } from "./state-file.ts";

type Mode = Config["mode"];

const modes: readonly Mode[] = ["ipvs", "iptables", "userspace"];

export interface ModeRecord {
  /** Modes of earlier runs, which may have left something in the kernel. */
  readonly earlier: ReadonlySet<Mode>;
  /** To be called before anything is written to the kernel. */
  begin(mode: Mode): void;
  /** What the other modes left is gone. */
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
