import { exitCodes, listOf } from "../../answer/answer.ts";
import type { Explanation } from "../../answer/explanation.ts";
import { adviceOn } from "../../answer/explanation-advice.ts";
import { explanationView, shortExplanationView } from "../../answer/explanation-view.ts";
import { type PlanQuery, planTarget } from "../../answer/questions.ts";
import { version } from "../../base/version.ts";
import { destinationText } from "../../explain/verdict-text.ts";
import { partOf, readArchive } from "../archive.ts";
import {
  type Command,
  type CommandContext,
  namespaceOption,
  outputOptions,
  switchOption,
  valueOption,
} from "../command.ts";
import { type ExplainQuestion, explainQuestion } from "../explain-question.ts";
import { isAtPort } from "../service-name.ts";

export const explainCommand: Command = {
  name: "explain",
  usage: "[[NAMESPACE/]NAME[:PORT] | ADDRESS:PORT[/udp]] [flags]",
  summary: "trace packets to a Service and explain the outcome",
  description:
    "Traces packets to a Service or an address. It prints the verdict, each rule and set entry " +
    "along the way, the virtual server, and why each endpoint is or is not used.\n" +
    "It reads the kernel, and gets the plan from the daemon's operator socket. Without a " +
    "running daemon, it plans as the daemon would at startup. It changes nothing.\n" +
    "Exit codes: 0 packets and kernel are as planned; 1 error; 2 packets do not take the planned " +
    "path, or the output has advice on what to do.",
  options: [
    ...outputOptions("short"),
    namespaceOption,
    valueOption(
      "from",
      "address",
      'packet source: a client IP, or "node" for a local process (default: node, pods and external clients)',
    ),
    switchOption(
      "probe",
      "also open a TCP connection from this node to each endpoint in use, with a timeout of 2 seconds",
    ),
    valueOption(
      "from-dump",
      "file",
      "explain packets on the node where kube-ipvs sysdump wrote this archive, instead of on this node; without a destination, explain packets to all addresses in the archive",
    ),
    valueOption(
      "in",
      "link",
      "network interface on which packets from the --from address arrive (default: the interface of the route to this address)",
    ),
    valueOption(
      "to",
      "address:port[/protocol]",
      "packet destination; the protocol is tcp, udp or sctp, or ADDRESS/icmp for ping",
    ),
  ],
  mostArguments: 1,
  examples: [
    { command: "kube-ipvs explain svc/web -n shop", purpose: "every address of a Service" },
    { command: "kube-ipvs explain shop/web -o short", purpose: "only verdicts and differences" },
    { command: "kube-ipvs explain 10.96.0.10:53/udp", purpose: "one address and port" },
    {
      command: "kube-ipvs explain --from-dump node.tar.gz shop/web",
      purpose: "a different node, from its archive",
    },
    {
      command: "kube-ipvs explain --from 10.244.1.7 --to 10.96.0.10:80",
      purpose: "packets from one client, with its connections",
    },
    {
      command: "kube-ipvs explain 10.96.0.10:80 -o json | jq '.items[].differences'",
      purpose: "differences between kernel and plan, for scripts",
    },
  ],
  run: async (context) => {
    const question = explainQuestion(context);
    const archive = context.options.get("from-dump") ?? "";
    const isProbed = context.options.get("probe") === "true";
    if (archive !== "" && isProbed) throw new Error("--probe cannot be combined with --from-dump");
    const all = await (archive === ""
      ? explainedHere(context, question)
      : explainedFrom(archive, context, question));
    const { port } = question;
    const explained = all.filter((one) =>
      isAtPort(port, { port: one.port, portName: one.service?.portName }),
    );
    if (explained.length === 0) throw new Error(`The Service has no port ${port}`);
    const probed = isProbed
      ? await (await import("../../explain/probe.ts")).probed(explained)
      : explained;
    const items = probed.map((one) => ({ ...one, advice: adviceOn(one) }));
    const view = context.format === "short" ? shortExplanationView : explanationView;
    context.print(listOf("ExplanationList", items), view);
    const isAsPlanned = probed.every(({ packets, connections, ...one }) => {
      // Unanswered connections do not affect the exit code, because they may be up to a minute old.
      const { unanswered: _, ...lasting } = connections;
      return (
        adviceOn({ ...one, packets, connections: lasting }).length === 0 &&
        packets.every(({ planned, losses }) => planned === undefined && losses.length === 0)
      );
    });
    return isAsPlanned ? exitCodes.fine : exitCodes.wrong;
  },
};

async function explainedHere(
  context: CommandContext,
  { query, from, port: _, ...options }: ExplainQuestion,
): Promise<readonly Explanation[]> {
  const question = { kind: "PlanFacts", target: planTarget(query) } as const;
  const facts = await context.source.ask(question, "planning as the daemon would at startup");
  const { length } = facts.destinations;
  if (length === 0) throw new Error(nothingText(query));
  if (facts.isTruncated) context.writeErr(`Only the first ${length} addresses are explained\n`);
  const { explain } = await context.programs.explain();
  return await explain(facts, from, options, context);
}

async function explainedFrom(
  path: string,
  { programs, writeErr }: CommandContext,
  { query, from, inLink }: ExplainQuestion,
): Promise<readonly Explanation[]> {
  const archive = await readArchive(path);
  const { row, text } = partOf(archive, path, "node-state");
  const { program } = archive.index;
  if (program !== version)
    throw new Error(`${path} is from kube-ipvs ${program}, but this program is ${version}`);
  if (row.note !== undefined) throw new Error(`${path}: ${row.name} has only ${row.note}`);
  const { explainRecorded } = await programs.explain();
  const all = await explainRecorded(text, from, inLink);
  const explained = all.filter((one) => isAbout(one, query));
  if (explained.length === 0)
    throw new Error(`${path} has no ${subjectText(query)}; kube-ipvs sysdump SERVICE records it`);
  if (from !== undefined && from !== "node")
    writeErr(`${path} does not contain the routes and connections of ${from}\n`);
  return explained;
}

function isAbout({ service, losers, ...to }: Explanation, query: PlanQuery): boolean {
  if (query.kind === "sample") return true;
  if (query.kind === "service") {
    const name = `${query.namespace}/${query.name}`;
    return losers.includes(name) || `${service?.namespace}/${service?.name}` === name;
  }
  const { protocol, address, port } = query.destination;
  return to.protocol === protocol && to.address === address && to.port === port;
}

function subjectText(query: PlanQuery): string {
  if (query.kind === "destination") return destinationText(query.destination);
  return query.kind === "service" ? `Service ${query.namespace}/${query.name}` : "destination";
}

function nothingText(query: PlanQuery): string {
  if (query.kind !== "service") return "Nothing to explain";
  return (
    `No address of Service ${query.namespace}/${query.name} is served: the Service does not exist (-n sets its namespace), ` +
    "is headless, has type ExternalName, or has an IP family that is not served"
  );
}
