import { exitCodes } from "../../answer/answer.ts";
import type { Status } from "../../answer/answers.ts";
import { explanationView } from "../../answer/explanation-view.ts";
import { historyView } from "../../answer/history-view.ts";
import { planView } from "../../answer/plan.ts";
import type { View } from "../../answer/render.ts";
import { drainsView, servicesView } from "../../answer/services-view.ts";
import { statusView } from "../../answer/status-view.ts";
import { sysdumpView } from "../../answer/sysdump.ts";
import { parseJson } from "../../base/parse-json.ts";
import { escapeUnprintable } from "../../base/printable.ts";
import { doctorView } from "../../doctor/render.ts";
import { partOf, readArchive, unreadablePart } from "../archive.ts";
import { type Command, outputOptions } from "../command.ts";

/** How to print the parts that contain commands' answers. */
const views: Readonly<Record<string, View<never>>> = {
  "status.json": statusView as View<Status>,
  "services.json": servicesView(true, "No Services"),
  "drains.json": drainsView,
  "history.json": historyView,
  "explain.json": explanationView,
  "doctor.json": doctorView,
  "plan.json": planView,
};

export const showCommand: Command = {
  name: "show",
  usage: "FILE [PART] [flags]",
  summary: "print a kube-ipvs sysdump archive, or one of its parts",
  description:
    "Lists the parts of an archive that kube-ipvs sysdump wrote, or prints one of them. The output of a " +
    "command has the same format as on the node itself.\n" +
    "Exit codes: 0 success; 1 error.",
  hasOwnFlagsOnly: true,
  needsNoMode: true,
  options: outputOptions("name"),
  mostArguments: 2,
  examples: [
    { command: "kube-ipvs show node.tar.gz", purpose: "list the parts" },
    { command: "kube-ipvs show node.tar.gz status", purpose: "print that node's status" },
    { command: "kube-ipvs show node.tar.gz plan -o json", purpose: "for scripts" },
  ],
  run: async ({ arguments: [path, wanted], columns, print, writeOut }) => {
    if (path === undefined)
      throw new Error("FILE is required: an archive that kube-ipvs sysdump wrote");
    const { index, parts } = await readArchive(path);
    if (wanted === undefined) {
      print(index, sysdumpView);
      return exitCodes.fine;
    }
    const { row, text } = partOf({ index, parts }, path, wanted);
    const view = views[row.name];
    if (view === undefined || row.note !== undefined) {
      // The archive may come from anyone. A terminal would execute its escape sequences.
      writeOut(columns?.() === undefined ? text : text.replace(/[^\n\t]+/g, escapeUnprintable));
      return exitCodes.fine;
    }
    try {
      print(parseJson(text) as never, view);
    } catch (error) {
      throw unreadablePart(path, index, row.name, error);
    }
    return exitCodes.fine;
  },
};
