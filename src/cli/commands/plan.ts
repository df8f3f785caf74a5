import { exitCodes } from "../../answer/answer.ts";
import { countChanges, planView } from "../../answer/plan.ts";
import { servicesTarget } from "../../answer/questions.ts";
import type { RunningDaemon } from "../../daemon/print-plan.ts";
import { type Command, type CommandContext, outputOptions, valueOption } from "../command.ts";

export const planCommand: Command = {
  name: "plan",
  summary: "print what a sync would change in this kernel",
  description:
    "Prints what a sync would change in this kernel, and which leftovers the daemon would remove after " +
    "the sync. The command itself changes nothing. In userspace mode, it also prints the listeners that the " +
    "daemon would open. Without configuration flags, it plans the running daemon's next sync; " +
    "otherwise, the first sync after a start. With --cleanup, it prints what kube-ipvs --cleanup would " +
    "remove. With -f, it prints what applying a file would change, apart from changes that are pending anyway.\n" +
    "Exit codes: 0 nothing would change; 1 error; 2 something would change.",
  usesRunningConfig: true,
  options: [
    ...outputOptions(),
    {
      ...valueOption(
        "filename",
        "file",
        "print what applying the Services and EndpointSlices in this YAML or JSON file would change on this node; - for stdin",
      ),
      short: "f",
    },
  ],
  examples: [
    {
      command: "kube-ipvs plan --config /var/lib/kube-proxy/config.conf",
      purpose: "preview a takeover from kube-proxy on this node",
    },
    { command: "kube-ipvs plan --manifests ./services -o json", purpose: "without a cluster" },
    { command: "kube-ipvs plan -f service.yaml", purpose: "before kubectl apply -f service.yaml" },
    { command: "kube-ipvs plan --cleanup", purpose: "what kube-ipvs --cleanup would remove" },
  ],
  run: async (context) => {
    const { programs, config, values, options, runContext, print } = context;
    const isCleanup = values.get("cleanup")?.at(-1) === "true";
    const name = options.get("filename") ?? "";
    if (isCleanup && name !== "") throw new Error("-f: cannot be combined with --cleanup");
    const { planApplied, planNodeCleanUp, planSync } = await programs.plan();
    const plan = await (isCleanup
      ? planNodeCleanUp(config, runContext())
      : name === ""
        ? planSync(config, runContext(), await runningDaemon(context))
        : planApplied(
            ...([config, runContext(), await readApplied(name, context)] as const),
            await runningDaemon(context),
          ));
    print(plan, planView);
    return countChanges(plan) > 0 ? exitCodes.wrong : exitCodes.fine;
  },
};

/** Reads the file of `-f`; `-` is stdin. */
async function readApplied(
  name: string,
  { readFile, readInput }: Pick<CommandContext, "readFile" | "readInput">,
): Promise<{ readonly name: string; readonly text: string }> {
  return name === "-" ? { name: "stdin", text: await readInput() } : { name, text: readFile(name) };
}

/** Reads the running daemon's state. Undefined if it has another configuration, has not synced yet, or only observes. */
async function runningDaemon({
  isRunningConfig,
  source,
}: Pick<CommandContext, "isRunningConfig" | "source">): Promise<RunningDaemon | undefined> {
  if (!isRunningConfig) return undefined;
  const status = await source.askRunning({ kind: "Status", target: "/v1/status?all=true" });
  const { lastFullSync, lastPartialSync, observeOnly } = status;
  if (observeOnly || (lastFullSync ?? lastPartialSync) === undefined) return undefined;
  const rowsOf: RunningDaemon["rowsOf"] = async (service) => {
    const [namespace = "", name = ""] = service.split("/");
    const target = servicesTarget({ namespace, name, hasEndpoints: true, hasConnections: false });
    return (await source.askRunning({ kind: "ServiceList", target })).items;
  };
  return { status, rowsOf };
}
