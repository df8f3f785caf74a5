/** `kube-ipvs status`. */
import { parseJson } from "../../base/parse-json.ts";
import { answerText } from "../../base/structured-text.ts";
import { apiVersion, type Status } from "../../daemon/operator/answers.ts";
import { askDaemon, type Reply, statusTimeoutMs } from "../../daemon/operator/ask-daemon.ts";
import { findLockHolder } from "../../daemon/process/instance-lock.ts";
import { exitCodes, type Question, type QuestionWorld } from "./question.ts";
import { statusText } from "./status-text.ts";

/** Resolves with the exit code: OK, degraded, not running. Rejects where this process may not ask. */
export async function runStatus(question: Question, world: QuestionWorld): Promise<number> {
  const path = question.config.operatorSocketPath;
  const format = question.options.get("output");
  const reply = await askDaemon(path, "/v1/status", statusTimeoutMs);
  if (reply.kind === "failed" && reply.isDenied === true) {
    throw new Error(`Cannot ask kube-ipvs on ${path}: ${reply.reason}`);
  }
  if (reply.kind !== "answer") return await withoutAnswer(reply, question, world);
  const status = parseJson(reply.text) as Status;
  world.writeOut(answerText(format, status, () => statusText(status)));
  return status.verdict === "OK" ? exitCodes.ok : exitCodes.degraded;
}

/** The instance lock still says whether a daemon runs. */
async function withoutAnswer(
  { kind, reason }: Exclude<Reply, { kind: "answer" }>,
  question: Question,
  world: QuestionWorld,
): Promise<number> {
  const { operatorSocketPath: path, lockName } = question.config;
  const holder = await findLockHolder(lockName);
  const isRunning = kind === "failed" || holder !== undefined;
  const summary = isRunning
    ? `Degraded: kube-ipvs is running${holder === undefined ? "" : ` (process ${holder.pid})`}, but does not answer on its operator socket ${path} (${reason})`
    : `Not running: no kube-ipvs on this node answers on ${path} (${reason})`;
  const verdict = isRunning ? "Degraded" : "NotRunning";
  const status = { apiVersion, kind: "Status", verdict, summary };
  const format = question.options.get("output");
  world.writeOut(answerText(format, status, () => `${summary}\n`));
  return isRunning ? exitCodes.degraded : exitCodes.notRunning;
}
