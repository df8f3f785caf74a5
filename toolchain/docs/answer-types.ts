/** The types of the answers that commands print with `-o json`. schemas.ts names them. */
import type { ExplanationList } from "../../src/answer/answer.ts";
import type { Answers, StatusWithoutDaemon } from "../../src/answer/answers.ts";
import type { Plan } from "../../src/answer/plan.ts";
import type { TrafficList } from "../../src/answer/traffic.ts";
import type { NodeList } from "../../src/cli/across-nodes.ts";
import type { VersionAnswer } from "../../src/cli/commands/version.ts";
import type { DoctorReport } from "../../src/doctor/render.ts";
import type { AcceptanceReport } from "../../src/e2e/report.ts";

export type StatusAnswer = Answers["Status"] | StatusWithoutDaemon;
export type ServicesAnswer = Answers["ServiceList"];
export type ExplainAnswer = ExplanationList;
export type DrainsAnswer = Answers["DrainList"];
export type TopAnswer = TrafficList;
export type DoctorAnswer = DoctorReport;
export type PlanAnswer = Plan;
export type VersionsAnswer = VersionAnswer;
export type NodesAnswer = NodeList;
export type AcceptanceAnswer = AcceptanceReport;
