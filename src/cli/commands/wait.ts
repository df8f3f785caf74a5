import { once } from "node:events";
import { exitCodes } from "../../answer/answer.ts";
import type { Command } from "../command.ts";

export const waitCommand: Command = {
  name: "wait",
  summary: "wait for SIGTERM or SIGINT",
  description:
    "Waits for SIGTERM or SIGINT. It keeps a clean-up pod Ready after the pod's init container " +
    "has cleaned the node.",
  options: [],
  hasOwnFlagsOnly: true,
  needsNoMode: true,
  drawsItself: true,
  examples: [{ command: "kube-ipvs wait", purpose: "as the last container of a clean-up pod" }],
  run: async ({ writeOut }) => {
    // A signal listener does not keep a Node.js process alive.
    const keepAlive = setInterval(() => {}, 2 ** 30);
    const signals = ["SIGTERM", "SIGINT"].map((name) => once(process, name));
    writeOut("Waiting for SIGTERM\n");
    await Promise.race(signals);
    clearInterval(keepAlive);
    return exitCodes.fine;
  },
};
