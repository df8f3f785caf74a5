/** Finds names of Services, namespaces, nodes and servers in answers, for redaction. Pure. */
import { isRecord } from "../base/is-record.ts";

/** Fields with a name. */
const nameFields: ReadonlySet<string> = new Set(["namespace", "node", "nodes", "hostnameOverride"]);
/** Fields with texts such as `default/web:http`. */
const serviceFields: ReadonlySet<string> = new Set(["service", "services", "losers", "portName"]);

export function* namesIn(value: unknown): Generator<string> {
  if (Array.isArray(value)) for (const one of value) yield* namesIn(one);
  if (!isRecord(value)) return;
  if (typeof value["namespace"] === "string" && typeof value["name"] === "string") {
    yield value["name"];
  }
  for (const [field, one] of Object.entries(value)) {
    const texts = (Array.isArray(one) ? one : [one]).filter((text) => typeof text === "string");
    if (nameFields.has(field)) yield* texts;
    if (serviceFields.has(field)) yield* texts.flatMap(serviceNames);
    if (field === "subject") yield* texts.flatMap((text) => subjectNames(text, value["kind"]));
    if (field === "server") yield* texts.map((text) => hostOf(text));
    if (field === "node" && isRecord(one) && typeof one["name"] === "string") yield one["name"];
    yield* namesIn(one);
  }
}

/** Names of Services in comments of rules, such as `"default/web:http cluster IP"`. */
export function* namesInComments(text: string): Generator<string> {
  for (const [, quoted, word = ""] of text.matchAll(/\bcomment (?!--)(?:\\?"([^"\\\n]*)|(\S+))/g)) {
    yield* (quoted ?? word).split(" ").flatMap(serviceNames);
  }
}

/** Host names in URLs, such as the API server's in errors. */
export function* namesInUrls(text: string): Generator<string> {
  for (const [url] of text.matchAll(/\bhttps?:\/\/[\w.-]+/g)) yield hostOf(url);
}

/** The names in the subject of an invalid object. */
function subjectNames(subject: string, kind: unknown): readonly string[] {
  if (kind === "nodes") return [subject];
  return kind === "services" || kind === "endpointslices" ? serviceNames(subject) : [];
}

/** The namespace and the name in `default/web` or `default/web:http`. */
function serviceNames(text: string): readonly string[] {
  const [, namespace, name] = /^([\w.-]+)\/([\w.-]+)/.exec(text) ?? [];
  return namespace === undefined || name === undefined ? [] : [namespace, name];
}

/** The host name in `https://api.example.com:6443`; empty for an address. */
function hostOf(server: string): string {
  const [, host = ""] = /^(?:\w+:\/\/)?([^/:[\]]+)/.exec(server) ?? [];
  return /^[\d.]*$/.test(host) ? "" : host;
}
