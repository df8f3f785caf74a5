/** Maps request paths to answers. Does not use sockets. */

import { listOf } from "../../answer/answer.ts";
import { apiVersion } from "../../answer/answers.ts";
import { readPlanQuery, readServicesQuery } from "../../answer/questions.ts";
import type { ListKind } from "../../answer/rows.ts";
import type { Clock } from "../../base/clock.ts";
import { counted } from "../../base/counted.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { Drain } from "../../reconcile/drain/drains.ts";
import type { ModeView, ObjectsView } from "./daemon-view.ts";
import { drainRows } from "./drain-rows.ts";
import { readDriftedAgain } from "./drifted-servers.ts";
import { planFacts } from "./plan-facts.ts";
import { serviceRows } from "./service-rows.ts";
import { beforeFirstSyncText, type StatusSources, statusOf } from "./status.ts";

export type OperatorAnswer =
  | { readonly kind: "object"; readonly status: number; readonly object: object }
  /** A list whose rows are generated as it is sent. */
  | { readonly kind: "list"; readonly listKind: ListKind; readonly rows: AsyncIterable<object> };

export interface AnswerSources {
  readonly clock: Clock;
  readonly status: () => StatusSources;
  /** A KubeProxyConfiguration v1alpha1 with all fields set. */
  readonly configuration: () => object;
  /** Undefined until the kernel is prepared. */
  readonly view: () => ModeView | undefined;
}

/** `target` is the request's path and query, as received. */
export async function answerTo(target: string, sources: AnswerSources): Promise<OperatorAnswer> {
  const { path, parameters } = splitTarget(target);
  if (path === "/v1/status") {
    const view = sources.view();
    if (view?.mode === "ipvs") await readDriftedAgain(view);
    const object = await inSlices(sources.clock, statusOf(sources.status(), parameters.has("all")));
    return { kind: "object", status: 200, object };
  }
  if (path === "/v1/config") {
    const configuration = sources.configuration();
    return {
      kind: "object",
      status: 200,
      object: { apiVersion, kind: "Configuration", configuration },
    };
  }
  if (path === "/v1/history") {
    const items = (sources.view()?.history.events ?? []).map(({ atMs: _, timeMs, ...event }) => ({
      ...{ time: new Date(timeMs).toISOString(), ...event },
    }));
    return { kind: "object", status: 200, object: listOf("History", items) };
  }
  if (!viewPaths.includes(path)) {
    return failure(
      404,
      `not found: the paths are /v1/status, /v1/config, /v1/history, ${viewPaths.join(" and ")}`,
    );
  }
  const view = sources.view();
  if (view === undefined) return failure(503, "kube-ipvs has not prepared the kernel yet");
  if (view.history.last === undefined) {
    return failure(503, beforeFirstSyncText(sources.status(), await servedBeforeSync(view)));
  }
  return await answerFrom(view, target);
}

async function servedBeforeSync(view: ModeView): Promise<string> {
  if (view.mode === "userspace") return "nothing is served until then";
  if (view.mode === "iptables") return "rules of an earlier run remain in place until then";
  const servers = await view.ipvs.listTraffic();
  return `the kernel still has ${counted(servers.length, "virtual server")}`;
}

const viewPaths = ["/v1/services", "/v1/drains", "/v1/plan"];

/** Answers a request to one of the `viewPaths`. `drains` defaults to the daemon's own drains. */
export async function answerFrom(
  view: ModeView,
  target: string,
  drains?: Iterable<Drain>,
): Promise<OperatorAnswer> {
  const { path, parameters } = splitTarget(target);
  if (path === "/v1/plan") return await planAnswer(view, parameters);
  if (path === "/v1/drains") {
    if (view.mode !== "ipvs") return failure(501, `${path}: ${withoutDrains(view.mode)}`);
    return { kind: "list", listKind: "DrainList", rows: drainRows(view, drains) };
  }
  const query = readServicesQuery(parameters);
  if (typeof query === "string") return failure(400, query);
  return { kind: "list", listKind: "ServiceList", rows: serviceRows(view, query) };
}

function splitTarget(target: string): {
  readonly path: string;
  readonly parameters: URLSearchParams;
} {
  const [path = "", query] = target.split("?", 2);
  return { path, parameters: new URLSearchParams(query) };
}

async function planAnswer(view: ModeView, parameters: URLSearchParams): Promise<OperatorAnswer> {
  const query = readPlanQuery(parameters);
  if (typeof query === "string") return failure(400, query);
  return { kind: "object", status: 200, object: await planFacts(view, query) };
}

/** The error text for commands about drains in modes without drains. */
export function withoutDrains(mode: ObjectsView["mode"]): string {
  return mode === "iptables"
    ? "iptables mode has no drains: conntrack keeps open connections alive"
    : "userspace mode has no drains in the kernel: the process closes its own connections";
}

export function failure(status: number, message: string): OperatorAnswer {
  return { kind: "object", status, object: { apiVersion, kind: "Error", message } };
}
