import { exitCodes, listOf } from "../../answer/answer.ts";
import type { Answers } from "../../answer/answers.ts";
import { type PlanSubject, planTarget, servicesTarget } from "../../answer/questions.ts";
import { rendered } from "../../answer/render.ts";
import type { ServicesQuery } from "../../answer/rows.ts";
import { sysdumpView } from "../../answer/sysdump.ts";
import { systemErrorText } from "../../base/system-error-text.ts";
import {
  type Command,
  type CommandContext,
  namespaceOption,
  switchOption,
  valueOption,
} from "../command.ts";
import { queryOf } from "./services.ts";

export const sysdumpCommand: Command = {
  name: "sysdump",
  usage: "[SERVICE] [flags]",
  summary: "write an archive for a bug report about this node",
  description:
    "Writes a .tar.gz archive with the output of status, services, drains, plan, doctor and explain, " +
    "the configuration, metrics, virtual servers, sets, rules, addresses, routes, kernel settings " +
    "and the end of the log. With SERVICE, explain traces packets to this Service instead of to a sample of Services. The archive contains no secrets. Print it with kube-ipvs show.\n" +
    "The index names each part that fails, takes longer than 15 seconds or is larger than 16 MB. " +
    "After 90 seconds, the remaining parts are skipped.\n" +
    "Exit codes: 0 success; 1 error.",
  usesRunningConfig: true,
  needsNoMode: true,
  mostArguments: 1,
  options: [
    namespaceOption,
    {
      ...valueOption(
        "filename",
        "file",
        "archive to write; - for stdout (default: kube-ipvs-sysdump-TIME.tar.gz in the current directory)",
      ),
      short: "f",
    },
    switchOption("redact", "replace addresses and names consistently, and omit the log"),
  ],
  examples: [
    { command: "kube-ipvs sysdump --redact", purpose: "for a public issue" },
    { command: "kube-ipvs sysdump shop/web", purpose: "if one Service is affected" },
    {
      command: "kubectl -n kube-system exec POD -- kube-ipvs sysdump -f - > node.tar.gz",
      purpose: "from a workstation",
    },
  ],
  run: async (context) => {
    const { clock, config, options, programs } = context;
    const { sysdump } = await programs.sysdump();
    const { findLockHolder } = await import("../../daemon/process/instance-lock.ts");
    const { index, archive } = await sysdump(answerParts(context), config, clock, {
      isRedacted: options.get("redact") === "true",
      daemonPid: async () => (await findLockHolder(config.lockName))?.pid,
    });
    const time = index.time.replaceAll(/[-:]|\.\d+/g, "");
    const path = options.get("filename") || `kube-ipvs-sysdump-${time}.tar.gz`;
    try {
      context.writeBytes(path, archive);
    } catch (error) {
      const reason = `${systemErrorText(error)}; choose a different file with -f`;
      throw new Error(`Cannot write ${path}: ${reason}`, { cause: error });
    }
    const text = `${rendered(index, sysdumpView, "text", context.form)}\n`;
    if (path === "-") context.writeErr(text);
    else context.writeOut(`${text}Wrote ${path}\n`);
    return exitCodes.fine;
  },
};

/** The answers of other commands, as JSON. */
function answerParts(context: CommandContext): {
  readonly name: string;
  readonly read: () => Promise<string>;
}[] {
  const { clock, config, programs, runContext, source } = context;
  const ask = <Kind extends keyof Answers>(kind: Kind, target: string): Promise<Answers[Kind]> =>
    source.askRunning({ kind, target });
  const subject = subjectOf(queryOf({ ...context, format: "json" }));
  const services = servicesTarget({ hasEndpoints: true, hasConnections: true });
  const part = (name: string, read: () => Promise<unknown>) => ({
    name: `${name}.json`,
    read: async () => `${JSON.stringify(await read(), undefined, 2)}\n`,
  });
  return [
    part("status", () => ask("Status", "/v1/status")),
    part("config", () => ask("Configuration", "/v1/config")),
    part("services", () => ask("ServiceList", services)),
    part("drains", () => ask("DrainList", "/v1/drains")),
    part("history", () => ask("History", "/v1/history")),
    part("explain", async () => {
      const facts = await ask("PlanFacts", planTarget(subject));
      if (facts.destinations.length === 0) throw new Error("no address of a Service is served");
      const { explain } = await programs.explain();
      return listOf("ExplanationList", await explain(facts, undefined, {}, context));
    }),
    {
      name: "node-state.json",
      read: async () =>
        (await programs.explain()).record(await ask("PlanFacts", planTarget(subject)), context),
    },
    part("doctor", async () => (await programs.doctor()).examineNode(config, clock, false)),
    part("plan", async () => (await programs.plan()).planSync(config, runContext())),
  ];
}

function subjectOf({ namespace = "default", name, destination }: ServicesQuery): PlanSubject {
  if (destination !== undefined) return { kind: "destination", destination };
  return name === undefined ? { kind: "sample" } : { kind: "service", namespace, name };
}
