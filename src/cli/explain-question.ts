/** Parses the arguments of `kube-ipvs explain`. Pure. */

import type { PlanQuery, PlanSubject } from "../answer/questions.ts";
import { parseIpAddress } from "../base/ip.ts";
import type { From } from "../explain/origins.ts";
import type { CommandContext } from "./command.ts";
import { destinationOf } from "./destination.ts";
import { serviceNamed } from "./service-name.ts";

export interface ExplainQuestion {
  readonly query: PlanQuery;
  readonly from?: From;
  readonly inLink?: string;
  /** The name or number of the Service's port. */
  readonly port?: string;
}

/** Converts the arguments to a question. Throws if they are invalid. */
export function explainQuestion({
  options,
  arguments: [subject],
}: Pick<CommandContext, "options" | "arguments">): ExplainQuestion {
  const {
    to = "",
    from: fromText = "",
    in: inLink = "",
    "from-dump": archive = "",
    namespace = "",
  } = Object.fromEntries(options);
  if (subject !== undefined && to !== "")
    throw mistake(`give either ${quoted(subject)} or --to, not both`);
  const text = subject ?? to;
  if (text === "" && archive === "") {
    throw mistake("give NAMESPACE/NAME, ADDRESS:PORT, or --from ADDRESS --to ADDRESS:PORT");
  }
  const from = fromOf(fromText);
  if (inLink !== "" && (from === undefined || from === "node")) {
    throw mistake("--in requires --from ADDRESS");
  }
  const asked = subjectOf(text, namespace);
  if (asked === undefined) {
    throw mistake(
      `${quoted(text)}: must be NAME, NAMESPACE/NAME[:PORT], ADDRESS:PORT, ADDRESS:PORT/udp or ADDRESS/icmp`,
    );
  }
  const { port, ...about } = asked;
  const asks = from === undefined || from === "node" ? {} : { from };
  return {
    query: { ...about, ...asks },
    ...(from === undefined ? {} : { from }),
    ...(inLink === "" ? {} : { inLink }),
    ...(port === undefined ? {} : { port }),
  };
}

function mistake(text: string): Error {
  return new Error(`${text} (see --help)`);
}

function quoted(text: string): string {
  return JSON.stringify(text);
}

function fromOf(text: string): From | undefined {
  if (text === "" || text === "node") return text === "" ? undefined : text;
  const address = parseIpAddress(text);
  if (address === undefined)
    throw mistake(`--from ${quoted(text)}: must be an IP address, or node`);
  return address;
}

function subjectOf(
  text: string,
  namespace: string,
): (PlanSubject & { readonly port?: string }) | undefined {
  if (text === "") return { kind: "sample" };
  const destination = destinationOf(text);
  if (destination !== undefined) return { kind: "destination", destination };
  const named = serviceNamed(text, namespace);
  return named && { kind: "service", ...named };
}
