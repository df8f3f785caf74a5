/** `kube-ipvs status`. */
import { parseJson } from "../../base/parse-json.ts";
import type { Status } from "../../daemon/operator/answers.ts";
import { askDaemon, type Reply } from "../../daemon/operator/ask-daemon.ts";
import { findLockHolder } from "../../daemon/process/instance-lock.ts";
import { exitCodes, type Question, type QuestionWorld, structuredText } from "./question.ts";
import { statusText } from "./status-text.ts";

/** Resolves with the exit code: OK, degraded, not running. */
export async function runStatus(question: Question, world: QuestionWorld): Promise<number> {
  const { config, options } = question;
  const format = options.get("output");
  const reply = await askDaemon(config.operatorSocketPath, "/v1/status");
  if (reply.kind !== "answer") return await withoutAnswer(reply, question, world);
  const status = parseJson(reply.text) as Status;
  world.writeOut(
    format === "json" || format === "yaml" ? structuredText(format, status) : statusText(status),
  );
  return status.verdict === "OK" ? exitCodes.ok : exitCodes.degraded;
}

/** The instance lock still says whether a daemon runs. */
async function withoutAnswer(
  { kind, reason }: Exclude<Reply, { kind: "answer" }>,
  { config, options }: Question,
  world: QuestionWorld,
): Promise<number> {
  const holder = await findLockHolder(config.lockName);
  const path = config.operatorSocketPath;
  const isRunning = kind === "failed" || holder !== undefined;
  const summary = isRunning
    ? `Degraded: kube-ipvs is running${holder === undefined ? "" : ` (process ${holder.pid})`}, but does not answer on its operator socket ${path} (${reason})`
    : `Not running: no kube-ipvs on this node answers on ${path} (${reason})`;
  const format = options.get("output");
  const verdict = isRunning ? "Degraded" : "NotRunning";
  world.writeOut(
    format === "json" || format === "yaml"
      ? structuredText(format, { apiVersion: "kube-ipvs/v1", kind: "Status", verdict, summary })
      : `${summary}\n`,
  );
  return isRunning ? exitCodes.degraded : exitCodes.notRunning;
}
