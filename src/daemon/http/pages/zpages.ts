/**
 * /flagz and /statusz (KEP-4828, KEP-4827) as in kube-proxy 1.36: text by default, or a versioned object if the Accept
 * header requests one.
 */
import { kubernetesVersion, version } from "../../../base/version.ts";
import { yamlText } from "../../../base/yaml.ts";
import type { HttpAnswer, HttpRequest } from "../http-listener.ts";
import { textAnswer } from "./answers.ts";

export interface StatusFacts {
  /** Milliseconds since the epoch. */
  readonly startedAtMs: number;
  readonly nowMs: number;
  readonly paths: readonly string[];
}

/** Lists the flags by name, with their effective values. */
export function flagzPage(flags: ReadonlyMap<string, string>, request: HttpRequest): HttpAnswer {
  const sorted = [...flags].sort(([one], [other]) => (one < other ? -1 : 1));
  const lines = sorted.map(([name, value]) => `${name}=${value}`);
  return zpage("flagz", request, {
    text: lines.join("\n"),
    fields: { flags: Object.fromEntries(sorted) },
  });
}

/** Shows the start time, versions and paths of the program. */
export function statuszPage(facts: StatusFacts, request: HttpRequest): HttpAnswer {
  const { version: nodeVersion } = process;
  const { paths } = facts;
  const upSeconds = Math.max(0, Math.floor((facts.nowMs - facts.startedAtMs) / 1000));
  const emulated = kubernetesVersion.split(".").slice(0, 2).join(".");
  const lines = [
    `Started: ${unixDate(new Date(facts.startedAtMs))}`,
    `Up: ${upTime(upSeconds)}`,
    `Node.js version: ${nodeVersion}`,
    `Binary version: ${kubernetesVersion} (kube-ipvs ${version})`,
    `Emulation version: ${emulated}`,
    `Paths: ${paths.join(" ")}`,
  ];
  const fields = {
    startTime: new Date(facts.startedAtMs).toISOString().replace(/\.\d+Z$/, "Z"),
    uptimeSeconds: upSeconds,
    goVersion: `none (Node.js ${nodeVersion})`,
    binaryVersion: kubernetesVersion,
    emulationVersion: emulated,
    paths,
  };
  return zpage("statusz", request, { text: lines.join("\n"), fields });
}

/** The object form that the Accept header requests, such as `application/json;g=config.k8s.io;v=v1beta1;as=Flagz`. */
interface Wanted {
  readonly type: "application/json" | "application/yaml";
  readonly version: "v1alpha1" | "v1beta1";
}

function zpage(
  name: "flagz" | "statusz",
  { accept }: HttpRequest,
  page: { readonly text: string; readonly fields: object },
): HttpAnswer {
  const kind = name === "flagz" ? "Flagz" : "Statusz";
  const wanted = wantedForm(accept, kind);
  if (wanted === "text") return textAnswer(`\nkube-proxy ${name}\n${warning}\n\n${page.text}\n`);
  if (wanted === undefined) return textAnswer(notAcceptable, 406);
  const { type, version: formVersion } = wanted;
  const apiVersion = `config.k8s.io/${formVersion}`;
  const object = { kind, apiVersion, metadata: { name: "kube-proxy" }, ...page.fields };
  const isOld = formVersion === "v1alpha1";
  return {
    status: 200,
    headers: {
      "Content-Type": type,
      "X-Content-Type-Options": "nosniff",
      ...(isOld ? { Warning: `299 - "${apiVersion} ${kind} is deprecated, use v1beta1"` } : {}),
    },
    body: type === "application/json" ? `${JSON.stringify(object)}\n` : yamlText(object),
  };
}

const warning =
  "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.";
const notAcceptable =
  "not acceptable: request text/plain, or application/json or application/yaml with g=config.k8s.io, v=v1beta1 and as=Flagz or as=Statusz\n";

/** The first supported form in the Accept header. Undefined if none is supported. */
function wantedForm(accept: string, kind: string): Wanted | "text" | undefined {
  if (accept.trim() === "") return "text";
  for (const range of accept.split(",")) {
    const [type = "", ...rest] = range.split(";").map((part) => part.trim());
    if (["*/*", "text/*", "text/plain"].includes(type)) return "text";
    const { g, v, as } = Object.fromEntries(rest.map((part) => part.split("=", 2)));
    const isObject = type === "application/json" || type === "application/yaml";
    const isKnown = g === "config.k8s.io" && as === kind && (v === "v1alpha1" || v === "v1beta1");
    if (isObject && isKnown) return { type, version: v };
  }
  return undefined;
}

function upTime(seconds: number): string {
  const two = (value: number): string => String(value).padStart(2, "0");
  return `${Math.floor(seconds / 3600)} hr ${two(Math.floor(seconds / 60) % 60)} min ${two(seconds % 60)} sec`;
}

/** Go's UnixDate, in UTC: `Sat Nov 21 15:04:05 UTC 2026`. */
function unixDate(date: Date): string {
  const [, day, month, year, time] =
    /^(\w+), (\d+ \w+) (\d+) ([\d:]+)/.exec(date.toUTCString()) ?? [];
  const [dayOfMonth = "", monthName] = (month ?? "").split(" ");
  return `${day} ${monthName} ${dayOfMonth.replace(/^0/, " ")} ${time} UTC ${year}`;
}
