import { historyView } from "../../answer/history-view.ts";
import { type Command, outputOptions, watchOption } from "../command.ts";
import { printAndWatch } from "../watch.ts";

export const historyCommand: Command = {
  name: "history",
  summary: "print recent drift, and changes that the kernel rejected",
  description:
    "Prints up to 500 events since the daemon started, oldest first: drift (kernel state that a " +
    "third party changed), and when the kernel started and stopped rejecting a change.\n" +
    "The data comes from the daemon's operator socket.\n" +
    "Exit codes: 0 success; 1 error, or no daemon answers.",
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
    const ask = () => context.source.askRunning({ kind: "History", target: "/v1/history" });
    return printAndWatch(context, ask, (answer) => context.print(answer, historyView));
  },
};
