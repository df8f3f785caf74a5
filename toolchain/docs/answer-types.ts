/** The types of answers that commands print with `-o json`. schemas.ts derives a JSON Schema from each. */
import type { ExplanationList } from "../../src/answer/answer.ts";
import type { Answers, StatusWithoutDaemon } from "../../src/answer/answers.ts";
import type { Comparison, NodeServices } from "../../src/answer/comparison.ts";
import type { Plan } from "../../src/answer/plan.ts";
import type { Sysdump } from "../../src/answer/sysdump.ts";
import type { TrafficList } from "../../src/answer/traffic.ts";
import type { NodeList } from "../../src/cli/across-nodes.ts";
import type { VersionAnswer } from "../../src/cli/commands/version.ts";
import type { DoctorReport } from "../../src/doctor/render.ts";
import type { AcceptanceReport } from "../../src/e2e/report.ts";

export interface AnswerTypes {
  readonly status: Answers["Status"] | StatusWithoutDaemon;
  readonly services: Answers["ServiceList"];
  readonly explain: ExplanationList;
  /** On one node, and `kubectl kube-ipvs compare`. */
  readonly compare: NodeServices | Comparison;
  readonly drains: Answers["DrainList"];
  readonly history: Answers["History"];
  readonly top: TrafficList;
  readonly doctor: DoctorReport;
  readonly plan: Plan;
  readonly version: VersionAnswer;
  /** `kube-ipvs show FILE`, without PART. */
  readonly show: Sysdump;
  /** `kubectl kube-ipvs COMMAND --all-nodes`. */
  readonly "all-nodes": NodeList;
  /** `kube-ipvs-e2e`. */
  readonly e2e: AcceptanceReport;
}
