/** Formats a plan for people: grouped, one line per change. Pure. */
import type { ServiceName } from "../../base/service-name.ts";
import type { Change } from "../change.ts";
import type { ChangePlan } from "../change-plan.ts";
import { kindOf, subjectOf } from "../kinds/kinds.ts";
import { type SubjectType, subjectText } from "../subject.ts";

const headings: Readonly<Record<SubjectType, string>> = {
  module: "Kernel modules",
  sysctl: "Sysctls",
  link: "Link",
  set: "Sets",
  entry: "Set entries",
  chain: "iptables chains and jumps",
  "virtual-server": "Virtual servers",
  "real-server": "Real servers",
  address: "Addresses on kube-ipvs0",
  conntrack: "Conntrack entries",
};

/** The sign at the start of a line, by verb. */
const signs: Readonly<Record<string, string>> = {
  add: "+",
  create: "+",
  insert: "+",
  load: "+",
  remove: "-",
  destroy: "-",
  delete: "-",
  update: "~",
  write: "~",
  swap: "~",
};

/** For example `+ virtual server TCP 10.96.0.10:80 (rr)`. */
export function changeText(change: Change): string {
  const [, verb = ""] = /-(\w+)$/.exec(change.kind) ?? [];
  const detail = kindOf(change).detail?.(change) ?? "";
  return `${signs[verb] ?? "~"} ${subjectText(subjectOf(change))}${detail === "" ? "" : ` (${detail})`}`;
}

/** The plan as text, grouped by type of object, in order of first occurrence. */
export function planText(plan: ChangePlan): string {
  const changes = [...plan.changes, ...plan.deferred.map(({ change }) => change)];
  const waiting = new Map(plan.deferred.map(({ change, reason }) => [change, reason]));
  const groups = Map.groupBy(changes, (change) => subjectOf(change).type);
  const lines: string[] = changes.length === 0 ? ["No changes.", ""] : [];
  for (const [type, group] of groups) {
    lines.push(`${headings[type]}: ${group.length}`);
    for (const change of group) {
      const services = servicesText(plan.servicesOf(change));
      const wait = waiting.get(change);
      const suffix = [change.reason, services, wait === undefined ? "" : `waiting: ${wait}`];
      lines.push(`  ${changeText(change)}  # ${suffix.filter(Boolean).join(", ")}`);
    }
    lines.push("");
  }
  for (const key of plan.conflicts) {
    lines.push(`Conflict: ${key} is claimed by a Service and belongs to a third party; it stays`);
  }
  return `${lines.join("\n").trimEnd()}\n`;
}

function servicesText(services: readonly ServiceName[]): string {
  return services.length === 0 ? "" : `service ${services.join(" ")}`;
}
