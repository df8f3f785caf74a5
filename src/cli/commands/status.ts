import { exitCodes } from "../../answer/answer.ts";
import { apiVersion, type Status, type StatusWithoutDaemon } from "../../answer/answers.ts";
import { statusView } from "../../answer/status-view.ts";
import { sleep } from "../../base/clock.ts";
import {
  type Command,
  type CommandContext,
  outputOptions,
  valueOption,
  watchOption,
} from "../command.ts";
import { failureText } from "../source.ts";
import { printAndWatch } from "../watch.ts";

export const statusCommand: Command = {
  name: "status",
  summary: "print whether the daemon on this node is healthy",
  description:
    "Prints a verdict on this node's kube-ipvs daemon, then its state. The data comes from the " +
    "daemon's operator socket (kubeIpvs.operatorSocket). kube-ipvs doctor checks whether other " +
    "software's rules, routes or settings drop packets.\n" +
    "Exit codes: 0 OK; 1 error; 2 starting, degraded or not running.",
  options: [
    ...outputOptions(),
    valueOption("wait", "seconds", "wait up to this long for the verdict OK", "0"),
    watchOption,
  ],
  needsNoMode: true,
  examples: [
    {
      command: "kubectl kube-ipvs --node NODE status",
      purpose: "from a workstation",
    },
    { command: "kube-ipvs status -o json", purpose: "for scripts" },
    { command: "kube-ipvs status --wait 60", purpose: "after a restart" },
    { command: "kube-ipvs status --watch", purpose: "print again after each change" },
  ],
  run: async (context) => {
    const { clock, options } = context;
    const waitText = options.get("wait") ?? "0";
    const waitSeconds = Number(waitText);
    if (!/^\d+(?:\.\d+)?$/.test(waitText))
      throw new Error(`--wait: ${waitText}: must be a number of seconds, such as 60`);
    const endMs = clock.monotonicMs() + waitSeconds * 1_000;
    let status = await readStatus(context);
    while (status.verdict !== "OK" && clock.monotonicMs() < endMs) {
      await sleep(clock, 1_000);
      status = await readStatus(context);
    }
    if (options.get("watch") === "true") {
      return await printAndWatch(
        context,
        () => readStatus(context),
        (one) => context.print(one, statusView),
      );
    }
    context.print(status, statusView);
    return status.verdict === "OK" ? exitCodes.fine : exitCodes.wrong;
  },
};

async function readStatus({
  source,
  config,
}: CommandContext): Promise<Status | StatusWithoutDaemon> {
  const asked = await source.askDaemon({ kind: "Status", target: "/v1/status" });
  if (asked.kind === "answer") return asked.answer;
  if (asked.isDenied === true) {
    throw new Error(failureText(config.operatorSocket, asked.reason));
  }
  return await statusWithoutDaemon(asked.kind === "failed", asked.reason, config);
}

/** Uses the instance lock to determine whether a daemon is running. */
async function statusWithoutDaemon(
  hasFailed: boolean,
  reason: string,
  { operatorSocket: path, lockName }: CommandContext["config"],
): Promise<StatusWithoutDaemon> {
  const { findLockHolder } = await import("../../daemon/process/instance-lock.ts");
  const holder = await findLockHolder(lockName);
  if (!hasFailed && holder === undefined) {
    const summary = `Not running: no kube-ipvs daemon on this node answers on ${path} (${reason})`;
    return { apiVersion, kind: "Status", verdict: "NotRunning", summary };
  }
  const process = holder === undefined || holder.pid === 0 ? "" : ` (process ${holder.pid})`;
  const summary = `Degraded: kube-ipvs is running${process}, but does not answer on its operator socket ${path} (${reason}). The kernel keeps serving. Save the log, then restart kube-ipvs`;
  return { apiVersion, kind: "Status", verdict: "Degraded", summary };
}
