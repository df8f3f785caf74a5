import { exitCodes } from "../../answer/answer.ts";
import { apiVersion, type StatusWithoutDaemon } from "../../answer/answers.ts";
import { statusView } from "../../answer/status-view.ts";
import { type Command, type CommandContext, outputOptions } from "../command.ts";
import { failureText } from "../source.ts";

export const statusCommand: Command = {
  name: "status",
  summary: "print whether the daemon on this node works, and what is wrong",
  description:
    "Prints a verdict on the kube-ipvs daemon of this node, then its state. It asks the " +
    "daemon's operator socket (kubeIpvs.operatorSocket).\n" +
    "Exit codes: 0 OK, 1 error, 2 starting, degraded or not running.",
  options: outputOptions(),
  needsNoMode: true,
  examples: [
    {
      command: "kubectl -n kube-system exec ds/kube-ipvs -- kube-ipvs status",
      purpose: "from a workstation",
    },
    { command: "kube-ipvs status -o json", purpose: "for scripts" },
  ],
  run: async (context) => {
    const asked = await context.source.askDaemon({ kind: "Status", target: "/v1/status" });
    const path = context.config.operatorSocketPath;
    if (asked.kind === "failed" && asked.isDenied === true) {
      throw new Error(failureText(path, asked.reason));
    }
    const status =
      asked.kind === "answer"
        ? asked.answer
        : await statusWithoutDaemon(asked.kind === "failed", asked.reason, context.config);
    context.print(status, statusView);
    return status.verdict === "OK" ? exitCodes.fine : exitCodes.wrong;
  },
};

/** Uses the instance lock to determine whether a daemon runs. */
async function statusWithoutDaemon(
  hasFailed: boolean,
  reason: string,
  { operatorSocketPath: path, lockName }: CommandContext["config"],
): Promise<StatusWithoutDaemon> {
  const { findLockHolder } = await import("../../daemon/process/instance-lock.ts");
  const holder = await findLockHolder(lockName);
  if (!hasFailed && holder === undefined) {
    const summary = `Not running: no kube-ipvs on this node answers on ${path} (${reason})`;
    return { apiVersion, kind: "Status", verdict: "NotRunning", summary };
  }
  const process = holder === undefined || holder.pid === 0 ? "" : ` (process ${holder.pid})`;
  const summary = `Degraded: kube-ipvs is running${process}, but does not answer on its operator socket ${path} (${reason})`;
  return { apiVersion, kind: "Status", verdict: "Degraded", summary };
}
