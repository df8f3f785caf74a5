import { exitCodes } from "../../answer/answer.ts";
import { servicesTarget } from "../../answer/questions.ts";
import { isAsIntended } from "../../answer/reasons.ts";
import type { ServicesQuery } from "../../answer/rows.ts";
import { servicesView } from "../../answer/services-view.ts";
import { hostPort } from "../../base/ip.ts";
import {
  type Command,
  type CommandContext,
  namespaceOption,
  outputOptions,
  switchOption,
  watchOption,
} from "../command.ts";
import { destinationOf } from "../destination.ts";
import { isAtPort, serviceNamed } from "../service-name.ts";
import { printAndWatch } from "../watch.ts";

export const servicesCommand: Command = {
  name: "services",
  usage: "[[NAMESPACE/]NAME[:PORT] | ADDRESS:PORT] [flags]",
  summary: "print virtual servers, and why endpoints get no traffic",
  description:
    "Prints one line per address, port and protocol of the Services on this node. With NAME, " +
    "ADDRESS:PORT or -o wide, it also prints the endpoints, their connections in the kernel, and why an " +
    "endpoint is not used.\n" +
    "The data comes from the daemon's operator socket. Without a running daemon, the command shows what " +
    "the daemon would find at startup.\n" +
    "Exit codes: 0 served as planned; 1 error, or no Service has this name or address; 2 an address " +
    "is not served, or an endpoint is missing although it should be used.",
  options: [
    ...outputOptions("name"),
    namespaceOption,
    switchOption("all-namespaces", "print the Services in all namespaces", "A"),
    watchOption,
  ],
  mostArguments: 1,
  examples: [
    { command: "kube-ipvs services -A", purpose: "all virtual servers on this node" },
    {
      command: "kube-ipvs services web -n shop",
      purpose: "one Service with its endpoints and connections",
    },
    { command: "kube-ipvs services 10.96.0.10:53/udp", purpose: "the Service at an address" },
    { command: "kube-ipvs services -A -o json", purpose: "everything, for scripts" },
  ],
  run: async (context) => {
    const query = queryOf(context);
    const nothing = nothingText(query);
    const view = servicesView(query.hasConnections, nothing);
    // With --watch, the Service may be created later.
    const isNamed = query.name !== undefined || query.destination !== undefined;
    const mustExist = isNamed && context.options.get("watch") !== "true";
    const question = { kind: "ServiceList", target: servicesTarget(query) } as const;
    const ask = () => context.source.ask(question, "showing what the daemon would find at startup");
    let isServed = true;
    await printAndWatch(context, ask, (all) => {
      const answer = { ...all, items: all.items.filter((row) => isAtPort(query.port, row)) };
      if (answer.items.length === 0 && mustExist) throw new Error(nothing);
      context.print(answer, view);
      isServed = answer.items.every(isAsIntended);
    });
    return isServed ? exitCodes.fine : exitCodes.wrong;
  },
};

/** The Services that the arguments select. For an address, the Service may be in any namespace. */
export function queryOf({
  options,
  format,
  arguments: [written],
}: Pick<CommandContext, "options" | "format" | "arguments">): ServicesQuery & {
  readonly port?: string;
} {
  const destination = destinationOf(written ?? "");
  const named =
    destination === undefined
      ? serviceNamed(written ?? "", options.get("namespace") ?? "")
      : undefined;
  const namespace = named?.namespace ?? options.get("namespace");
  const isAll = options.get("all-namespaces") === "true";
  const hasDetails = written !== undefined || format === "wide";
  return {
    ...(destination === undefined
      ? {
          ...(isAll || namespace === undefined ? {} : { namespace }),
          ...(written === undefined ? {} : { name: named?.name ?? written }),
        }
      : { destination }),
    ...(named?.port === undefined ? {} : { port: named.port }),
    hasEndpoints: format === "json" || format === "yaml",
    hasConnections: hasDetails && format !== "name",
  };
}

function nothingText({ namespace, name, port, destination }: ReturnType<typeof queryOf>): string {
  if (destination !== undefined) {
    const { address, protocol } = destination;
    return `No Service at ${hostPort(address, destination.port)}, protocol ${protocol}`;
  }
  const at = port === undefined ? "" : ` with port ${port}`;
  const what = name === undefined ? "No Services" : `No Service ${name}${at}`;
  const where = namespace === undefined ? "" : ` in namespace ${namespace} (-A: all namespaces)`;
  return `${what}${where}`;
}
