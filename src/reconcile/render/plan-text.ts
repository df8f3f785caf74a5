/** A plan for people: grouped, one line for each change. Pure. */
import type { ServiceName } from "../../base/service-name.ts";
import type { RealServer } from "../../state/real-server.ts";
import type { VirtualServer } from "../../state/virtual-server.ts";
import type { Change } from "../change.ts";
import type { ChangePlan } from "../change-plan.ts";
import { type SubjectType, subjectOf, subjectText } from "../subject.ts";

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

/** `create`, `update` … as the sign that stands before a line. */
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

/** `+ virtual server TCP 10.96.0.10:80 (rr)` */
export function changeText(change: Change): string {
  const [, verb = ""] = /-(\w+)$/.exec(change.kind) ?? [];
  const detail = detailOf(change);
  return `${signs[verb] ?? "~"} ${subjectText(subjectOf(change))}${detail === "" ? "" : ` (${detail})`}`;
}

/** The plan as text, grouped by what is changed, in the order in which groups first occur. */
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

function detailOf(change: Change): string {
  switch (change.kind) {
    case "sysctl-write":
      return `${change.before ?? "absent"} -> ${change.after}`;
    case "set-create":
      return `${change.set.type}, maxelem ${change.set.maxElements}`;
    case "set-swap":
      return `maxelem ${change.set.maxElements}`;
    case "chain-write":
      return `${change.before?.length ?? 0} -> ${change.chain.rules.length} rules`;
    case "virtual-server-create":
      return settingsText(change.after);
    case "virtual-server-update":
      return `${settingsText(change.before)} -> ${settingsText(change.after)}`;
    case "real-server-create":
      return weightText(change.after);
    case "real-server-update":
      return `${weightText(change.before)} -> ${weightText(change.after)}`;
    case "jump-insert":
    case "jump-remove":
      return `jump ${targetText(change)}`;
    default:
      return "";
  }
}

function targetText({ jump }: Extract<Change, { readonly jump: unknown }>): string {
  const { target } = jump.rule;
  return target.kind === "jump" ? target.chain : target.kind;
}

function settingsText({ scheduler, persistenceTimeoutSeconds, flags }: VirtualServer): string {
  const words = [
    scheduler,
    persistenceTimeoutSeconds === 0 ? "" : `persistent ${persistenceTimeoutSeconds}s`,
    flags === 0 ? "" : `flags 0x${flags.toString(16)}`,
  ];
  return words.filter(Boolean).join(" ");
}

function weightText({ weight, limit }: RealServer): string {
  return `weight ${weight}${limit === undefined ? "" : `, thresholds ${limit.upper} ${limit.lower}`}`;
}
