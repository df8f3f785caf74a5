import { historyView } from "../../answer/history-view.ts";
import { type Command, outputOptions, watchOption } from "../command.ts";
import { failureText } from "../source.ts";
import { printAndWatch } from "../watch.ts";

export const historyCommand: Command = {
  name: "history",
  summary: "print the last changes by third parties, and changes that the kernel rejected",
  description:
    "Prints the last 500 events since the daemon started, the oldest first: drift, which is kernel state " +
    "that a third party changed, and when the kernel began and ceased to reject a change.\n" +
    "It asks the daemon's operator socket.\n" +
    "Exit codes: 0 printed, 1 error, or no daemon answers.",
  options: [...outputOptions(), watchOption],
  needsNoMode: true,
  examples: [
    { command: "kube-ipvs history", purpose: "after status reported drift" },
    {
      command: "kube-ipvs history -o json | jq '.items[] | select(.event == \"drift\")'",
      purpose: "drift only, for scripts",
    },
  ],
  run: (context) => {
    const ask = async () => {
      const asked = await context.source.askDaemon({ kind: "History", target: "/v1/history" });
      if (asked.kind === "answer") return asked.answer;
      throw new Error(failureText(context.config.operatorSocketPath, asked.reason));
    };
    return printAndWatch(context, ask, (answer) => context.print(answer, historyView));
  },
};
