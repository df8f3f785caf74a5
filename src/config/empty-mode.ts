import type { Command } from "./config.ts";
import type { ConfigNotice } from "./notice.ts";
import { proxyModeOf } from "./proxy-mode.ts";

/** What decides over an empty proxy mode. */
export interface ModeChoice {
  readonly mode: string;
  /** There is a configuration file. */
  readonly hasFile: boolean;
  readonly command: Command;
}

/** Says which mode an empty one means. Clean-up removes what any mode left; a command that asks starts nothing. */
export function emptyModeNotices({ mode, hasFile, command }: ModeChoice): readonly ConfigNotice[] {
  if (mode !== "" || command === "clean-up") return [];
  const chosen = proxyModeOf(mode, hasFile);
  const event = `No proxy mode chosen, using ${chosen}`;
  if (!hasFile) return command === "subcommand" ? [] : [{ level: "info", event, keys: {} }];
  const reason = "an empty mode in a configuration file means iptables, as it does to kube-proxy";
  const advice = "To serve with IPVS, write mode: ipvs, or pass --proxy-mode=ipvs";
  return [{ level: "warn", event, keys: { reason, advice } }];
}
