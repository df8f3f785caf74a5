import { exitCodes } from "../../answer/answer.ts";
import { apiVersion } from "../../answer/answers.ts";
import type { NodeServices } from "../../answer/comparison.ts";
import { servicesTarget } from "../../answer/questions.ts";
import { servicesView } from "../../answer/services-view.ts";
import { type Command, namespaceOption, outputOptions } from "../command.ts";
import { isAtPort } from "../service-name.ts";
import { queryOf } from "./services.ts";

export const compareCommand: Command = {
  name: "compare",
  usage: "[SERVICE] [flags]",
  summary: "print which nodes serve a Service differently",
  description:
    "kubectl kube-ipvs compare runs this command on all nodes, and prints the nodes that differ from most " +
    "others in frontends, schedulers, session affinity, ready endpoints, endpoints in use, or the reason why " +
    "an address is not served. If you run the command itself on a node, it prints that node's data. " +
    "Without SERVICE, it compares all Services.\n" +
    "Exit codes: 0 no differences; 1 error; 2 some nodes differ or do not answer.",
  options: [...outputOptions(), namespaceOption],
  needsNoMode: true,
  mostArguments: 1,
  examples: [
    { command: "kubectl kube-ipvs compare shop/web", purpose: "one Service on all nodes" },
    { command: "kubectl kube-ipvs compare -o json", purpose: "all Services, for scripts" },
  ],
  run: async (context) => {
    const { clock, options, arguments: words, source, print } = context;
    const ask = source.askRunning;
    const all = words.length === 0 ? new Map([...options, ["all-namespaces", "true"]]) : options;
    const query = queryOf({ options: all, format: "json", arguments: words });
    const target = servicesTarget({ ...query, hasEndpoints: true, hasConnections: false });
    const answer: NodeServices = {
      ...{ apiVersion, kind: "NodeServices", time: new Date(clock.nowMs()).toISOString() },
      items: (await ask({ kind: "ServiceList", target })).items.filter((row) =>
        isAtPort(query.port, row),
      ),
      problems: (await ask({ kind: "Status", target: "/v1/status" })).problems,
      history: (await ask({ kind: "History", target: "/v1/history" })).items,
    };
    const view = servicesView(false, "No Services");
    print(answer, {
      blocks: ({ items }, isWide) => view.blocks({ ...answer, kind: "ServiceList", items }, isWide),
    });
    return exitCodes.fine;
  },
};
