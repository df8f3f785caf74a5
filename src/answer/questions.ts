/** Formats and parses requests to the daemon's operator socket, as path and query. Pure. */

import { type IpAddress, parseIpAddress } from "../base/ip.ts";
import type { Destination } from "./answers.ts";
import type { ServicesQuery } from "./rows.ts";

/** The query of a request for plan facts. */
export type PlanQuery = PlanSubject & {
  /** The client. If undefined, all clients. */
  readonly from?: IpAddress;
};

export type PlanSubject =
  | { readonly kind: "service"; readonly namespace: string; readonly name: string }
  | { readonly kind: "destination"; readonly destination: Destination }
  /** A sample of a few Services, spread evenly over all Services. */
  | { readonly kind: "sample" };

const protocols: readonly Destination["protocol"][] = ["TCP", "UDP", "SCTP", "ICMP"];

/** Returns the path and query for `query`, which {@link readPlanQuery} parses. */
export function planTarget(query: PlanQuery): string {
  const subject = subjectParameters(query);
  const from: Record<string, string> = query.from === undefined ? {} : { from: query.from };
  return `/v1/plan?${new URLSearchParams({ ...subject, ...from })}`;
}

function subjectParameters(query: PlanSubject): Readonly<Record<string, string>> {
  switch (query.kind) {
    case "service":
      return { namespace: query.namespace, name: query.name };
    case "destination":
      return destinationParameters(query.destination);
    case "sample":
      return { sample: "true" };
  }
}

function destinationParameters(destination: Destination): Readonly<Record<string, string>> {
  return { ...destination, port: String(destination.port) };
}

/** Parses the query of a request for plan facts. If it is invalid, returns the error message. */
export function readPlanQuery(parameters: URLSearchParams): PlanQuery | string {
  const fromText = parameters.get("from");
  const from = fromText === null ? undefined : parseIpAddress(fromText);
  if (fromText !== null && from === undefined) return "from: must be an IP address";
  const subject = readSubject(parameters);
  return typeof subject === "string" ? subject : withFrom(subject, from);
}

function withFrom(subject: PlanSubject, from: IpAddress | undefined): PlanQuery {
  return from === undefined ? subject : { ...subject, from };
}

function readSubject(parameters: URLSearchParams): PlanSubject | string {
  if (parameters.get("sample") === "true") return { kind: "sample" };
  const name = parameters.get("name") ?? "";
  if (name !== "") return { kind: "service", namespace: parameters.get("namespace") ?? "", name };
  const destination = readDestination(parameters);
  return typeof destination === "string" ? destination : { kind: "destination", destination };
}

function readDestination(parameters: URLSearchParams): Destination | string {
  const address = parseIpAddress(parameters.get("address") ?? "");
  if (address === undefined)
    return "address: must be an IP address. To select a Service, give its name and namespace instead";
  const protocol = protocols.find((one) => one === parameters.get("protocol"));
  if (protocol === undefined) return `protocol: must be one of ${protocols.join(", ")}`;
  const portText = parameters.get("port") ?? "";
  const port = Number(portText);
  if (!/^\d{1,5}$/.test(portText) || port > 65_535) return "port: must be a number up to 65535";
  return { protocol, address, port };
}

/** Parses the query of a request for Services. Ignores unknown parameters. Returns the error message for an invalid one. */
export function readServicesQuery(query: URLSearchParams): ServicesQuery | string {
  const namespace = query.get("namespace") ?? "";
  const name = query.get("name") ?? "";
  const destination = query.has("address") ? readDestination(query) : undefined;
  if (typeof destination === "string") return destination;
  return {
    ...(namespace === "" ? {} : { namespace }),
    ...(name === "" ? {} : { name }),
    ...(destination === undefined ? {} : { destination }),
    hasEndpoints: query.get("endpoints") === "true",
    hasConnections: query.get("connections") === "true",
  };
}

/** Returns the path and query for `query`, which {@link readServicesQuery} parses. */
export function servicesTarget(query: ServicesQuery): string {
  const parameters = new URLSearchParams({
    ...(query.namespace === undefined ? {} : { namespace: query.namespace }),
    ...(query.name === undefined ? {} : { name: query.name }),
    ...(query.destination === undefined ? {} : destinationParameters(query.destination)),
    ...(query.hasEndpoints ? { endpoints: "true" } : {}),
    ...(query.hasConnections ? { connections: "true" } : {}),
  });
  return `/v1/services?${parameters}`;
}
