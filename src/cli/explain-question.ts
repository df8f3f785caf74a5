/** Parses the arguments of `kube-ipvs explain`. Pure. */

import type { Destination } from "../answer/answers.ts";
import type { PlanQuery, PlanSubject } from "../answer/questions.ts";
import { type IpAddress, parseIpAddress } from "../base/ip.ts";
import type { From } from "../explain/origins.ts";
import type { CommandContext } from "./command.ts";
import { serviceNamed } from "./service-name.ts";

export interface ExplainQuestion {
  readonly query: PlanQuery;
  readonly from?: From;
  readonly inLink?: string;
  /** The name or number of the Service's port. */
  readonly port?: string;
}

/** Throws if the arguments are invalid. */
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
    throw mistake(`both ${quoted(subject)} and --to are given`);
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

/** Parses `10.96.0.10:53/udp`, `[fd00:96::a]:80` or `10.96.0.10/icmp`. Undefined if it is invalid. */
function destinationOf(text: string): Destination | undefined {
  const slash = text.indexOf("/");
  const place = slash < 0 ? text : text.slice(0, slash);
  const protocol = protocolOf(slash < 0 ? "tcp" : text.slice(slash + 1));
  if (protocol === "ICMP") return withPort(bare(place), 0, protocol);
  const colon = place.lastIndexOf(":");
  const portText = place.slice(colon + 1);
  const addressText = place.slice(0, Math.max(0, colon));
  if (protocol === undefined || !/^\d{1,5}$/.test(portText)) return undefined;
  // Without brackets, the port cannot be distinguished from the IPv6 address.
  if (addressText.includes(":") && !addressText.startsWith("[")) return undefined;
  const port = Number(portText);
  return port < 1 || port > 65_535 ? undefined : withPort(bare(addressText), port, protocol);
}

function withPort(
  addressText: string,
  port: number,
  protocol: Destination["protocol"],
): Destination | undefined {
  const address: IpAddress | undefined = parseIpAddress(addressText);
  return address === undefined ? undefined : { protocol, address, port };
}

function bare(text: string): string {
  return /^\[.*\]$/.test(text) ? text.slice(1, -1) : text;
}

function protocolOf(text: string): Destination["protocol"] | undefined {
  const name = text.toUpperCase();
  return name === "TCP" || name === "UDP" || name === "SCTP" || name === "ICMP" ? name : undefined;
}
