/** Implements `kube-ipvs doctor`, which runs all checks on this node and changes nothing. */
import { apiVersion } from "../answer/answers.ts";
import type { Clock } from "../base/clock.ts";
import type { Config } from "../config/config.ts";
import { worstVerdict } from "./check.ts";
import { examine } from "./examine.ts";
import { openNode } from "./open-node.ts";
import type { DoctorReport } from "./render.ts";

export async function examineNode(
  config: Config,
  clock: Clock,
  isBeforeInstall: boolean,
): Promise<DoctorReport> {
  const node = openNode(config, isBeforeInstall, clock, process.env);
  try {
    const { findings: checks, skipped } = await examine(node);
    return { apiVersion, kind: "DoctorReport", verdict: worstVerdict(checks), checks, skipped };
  } finally {
    node.close();
  }
}
