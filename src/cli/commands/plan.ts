import { exitCodes } from "../../answer/answer.ts";
import { hasChanges, planView } from "../../answer/plan.ts";
import { type Command, outputOptions } from "../command.ts";

export const planCommand: Command = {
  name: "plan",
  summary: "print what a sync would change in this kernel",
  description:
    "Prints what a sync would change in this kernel, and changes nothing. In userspace mode " +
    "it also prints the listeners that the daemon would open. With --cleanup it prints what " +
    "kube-ipvs --cleanup would remove. Without configuration flags it uses the configuration of " +
    "the running daemon.\n" +
    "Exit codes: 0 no change, 1 error, 2 changes.",
  usesRunningConfig: true,
  options: outputOptions(),
  examples: [
    {
      command: "kube-ipvs plan --config /var/lib/kube-proxy/config.conf",
      purpose: "changes of a takeover from kube-proxy on this node",
    },
    { command: "kube-ipvs plan --manifests ./services -o json", purpose: "without a cluster" },
    { command: "kube-ipvs plan --cleanup", purpose: "what kube-ipvs --cleanup would remove" },
  ],
  run: async ({ programs, config, values, runContext, print }) => {
    const isCleanup = values.get("cleanup")?.at(-1) === "true";
    const { planNodeCleanUp, planSync } = await programs.plan();
    const plan = await (isCleanup ? planNodeCleanUp : planSync)(config, runContext());
    print(plan, planView);
    return hasChanges(plan) ? exitCodes.wrong : exitCodes.fine;
  },
};
