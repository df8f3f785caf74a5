import { drainsView } from "../../answer/services-view.ts";
import { type Command, outputOptions, watchOption } from "../command.ts";
import { printAndWatch } from "../watch.ts";

export const drainsCommand: Command = {
  name: "drains",
  summary: "print the draining real servers",
  description:
    "Prints the real servers of removed endpoints that still have open connections, oldest " +
    "first.\n" +
    "The data comes from the daemon's operator socket. Without a running daemon, the command shows what " +
    "the daemon would find at startup.\n" +
    "Exit codes: 0 success; 1 error.",
  options: [...outputOptions(), watchOption],
  needsNoMode: true,
  examples: [{ command: "kube-ipvs drains --watch", purpose: "print again after each change" }],
  run: (context) => {
    const question = { kind: "DrainList", target: "/v1/drains" } as const;
    const ask = () => context.source.ask(question, "showing what the daemon would find at startup");
    return printAndWatch(context, ask, (answer) => context.print(answer, drainsView));
  },
};
