import { exitCodes } from "../../answer/answer.ts";
import type { Verdict } from "../../doctor/check.ts";
import { doctorView } from "../../doctor/render.ts";
import { type Command, outputOptions, switchOption } from "../command.ts";

export const doctorCommand: Command = {
  name: "doctor",
  summary: "check kernel, settings, other proxies and the API server",
  description:
    "Checks whether this node meets kube-ipvs' requirements, without changing anything.\n" +
    "Without configuration flags, it uses the running daemon's configuration.\n" +
    "Exit codes: 0 all checks are ok; 1 error, or a check could not run; 2 a check has the verdict warn or fail.",
  usesRunningConfig: true,
  options: [
    ...outputOptions("name"),
    switchOption(
      "before-install",
      "check a node without kube-ipvs; skip checks that need a running daemon",
    ),
  ],
  examples: [
    {
      command: "kube-ipvs doctor --config /var/lib/kube-proxy/config.conf",
      purpose: "check a node, using kube-proxy's configuration",
    },
    {
      command: "kube-ipvs doctor --before-install",
      purpose: "check a node before installation, without a cluster or configuration",
    },
    {
      command: "kube-ipvs doctor -o json | jq '.checks[] | select(.verdict != \"ok\")'",
      purpose: "print all problems as JSON, for scripts",
    },
  ],
  run: async ({ programs, config, options, clock, print }) => {
    const { examineNode } = await programs.doctor();
    const isBeforeInstall = options.get("before-install") === "true";
    const report = await examineNode(config, clock, isBeforeInstall);
    print(report, doctorView);
    return codes[report.verdict];
  },
};

const codes: Readonly<Record<Verdict, number>> = {
  ok: exitCodes.fine,
  unknown: exitCodes.noAnswer,
  warn: exitCodes.wrong,
  fail: exitCodes.wrong,
};
