/**
 * The state file sections that record the modes and firewall marks of earlier runs, which may have left objects on this
 * node. Chains of iptables mode have the same names as kube-proxy's, and other software may also have virtual servers
 * with firewall marks. After a change of the mode or of the marks, only this record shows which chains and virtual
 * servers are ours to remove.
 */
import type { Config } from "../../config/config.ts";
import type { OwnershipRecord } from "../../reconcile/ownership/ownership.ts";
import { ownershipRecordIn } from "./ownership-record.ts";
import type { KeptState } from "./state-file.ts";

type Mode = Config["mode"];

const modes: readonly Mode[] = ["ipvs", "iptables", "userspace"];

export interface ModeRecord {
  /** Modes of earlier runs. They may have leftovers in the kernel. */
  readonly earlier: ReadonlySet<Mode>;
  /** Values of `kubeIpvs.portRangeMarks` in earlier runs. Virtual servers with these marks may exist. */
  readonly earlierMarks: readonly number[];
  /** Which virtual servers were ours, and which were foreign, when IPVS mode last ran. */
  readonly ownership: OwnershipRecord;
  /**
   * Records the mode of this run. Call this before the first write to the kernel. Resolves when the record has been
   * written or could not be written.
   */
  begin(mode: Mode): Promise<void>;
  /** Call this when the leftovers of other modes and marks have been removed. */
  tidied(mode: Mode): void;
}

export function modeRecordIn(
  state: KeptState,
  { portRangeMarks }: Pick<Config, "portRangeMarks"> = {},
): ModeRecord {
  const recorded = state.content["modes"];
  const earlier = new Set(
    Array.isArray(recorded) ? modes.filter((mode) => recorded.includes(mode)) : [],
  );
  const earlierMarks = marksIn(state);
  const keep = (ran: Iterable<Mode>, marks: Iterable<number>): void => {
    const [modes, portRangeMarks] = [[...new Set(ran)], [...new Set(marks)]];
    state.keep({
      modes: () => modes,
      portRangeMarks: () => (portRangeMarks.length === 0 ? undefined : portRangeMarks),
    });
  };
  const configured = portRangeMarks === undefined ? [] : [portRangeMarks];
  return {
    ...{ earlier, earlierMarks },
    ownership: ownershipRecordIn(state),
    begin: (mode) => {
      keep([...earlier, mode], [...earlierMarks, ...configured]);
      return state.idle();
    },
    tidied: (mode) => keep([mode], configured),
  };
}

/** See {@link ModeRecord.earlierMarks}. */
export function marksIn({ content }: Pick<KeptState, "content">): readonly number[] {
  const recorded = content["portRangeMarks"];
  const isMask = (mask: unknown): mask is number =>
    Number.isSafeInteger(mask) && (mask as number) > 0 && (mask as number) < 2 ** 32;
  return Array.isArray(recorded) ? recorded.filter(isMask) : [];
}
