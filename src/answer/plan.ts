/** The changes that a sync, a start or a clean-up would make, and their text form. Pure. */
import { counted } from "../base/counted.ts";
import type { Protocol } from "../base/protocol.ts";
import type { PlannedChange, PlannedChanges } from "../state/planned-change.ts";
import type { Envelope } from "./answers.ts";
import { reasons } from "./reasons.ts";
import type { View } from "./render.ts";

export interface Plan extends Envelope<"Plan">, PlannedChanges {
  /** The iptables backend, or `nftables` if rules and sets are written with nf_tables. Undefined in userspace mode. */
  readonly iptablesBackend?: "legacy" | "nft" | "nftables";
  /** Userspace mode: listeners to open, and names of SCTP service ports, which userspace mode does not serve. */
  readonly listeners?: readonly PlannedListener[];
  readonly sctpPorts?: readonly string[];
  /** Removals from the unused iptables backend, or from ipset if it is not in use. */
  readonly unusedBackend?: PlannedChanges & { readonly name?: string };
  /** Tables of kube-proxy's nftables mode and of kube-ipvs, such as `ip kube-proxy`. */
  readonly nftTables?: readonly string[];
  readonly kept?: readonly KeptObject[];
  /** Only for clean-up. */
  readonly files?: readonly string[];
  /** Only for clean-up: a kube-proxy that may be using the rules of its iptables or nftables mode. */
  readonly kubeProxy?: string;
}

export interface PlannedListener {
  readonly text: string;
  readonly protocol: Protocol;
  readonly host: string;
  /** Undefined if any free port is used. */
  readonly port?: number;
  /** For example `default/web`. */
  readonly service: string;
  /** For example `default/web:http`. */
  readonly portName: string;
  /** Virtual IPs and ports that rules redirect to the listener. */
  readonly addresses?: readonly string[];
  /** 0 if the Service has none. */
  readonly nodePort?: number;
}

export interface KeptObject {
  readonly subject: string;
  readonly reason:
    | "referenced-by-third-party"
    | "foreign-virtual-server"
    | "excluded-network"
    | "manual-weight";
}

/** The number of changes that the plan would make now. */
export function countChanges(plan: Plan): number {
  const { changes, unusedBackend, listeners = [], nftTables = [], files = [] } = plan;
  const all = [...changes, ...(unusedBackend?.changes ?? [])];
  const ready = all.filter(({ deferred }) => deferred === undefined);
  return ready.length + listeners.length + nftTables.length + files.length;
}

/** Returns the part of a plan that `pending` does not contain. */
export function planBeyond(pending: Plan, plan: Plan): Plan {
  const fresh = <T>(all: readonly T[] = [], known: readonly T[] = []): readonly T[] => {
    const texts = new Set(known.map((one) => JSON.stringify(one)));
    return all.filter((one) => !texts.has(JSON.stringify(one)));
  };
  const { listeners, sctpPorts } = plan;
  return {
    ...plan,
    changes: fresh(plan.changes, pending.changes),
    conflicts: fresh(plan.conflicts, pending.conflicts),
    ...(listeners === undefined ? {} : { listeners: fresh(listeners, pending.listeners) }),
    ...(sctpPorts === undefined ? {} : { sctpPorts: fresh(sctpPorts, pending.sctpPorts) }),
  };
}

export const planView: View<Plan> = {
  blocks: (plan) => {
    const { sctpPorts = [] } = plan;
    const sections = sectionsOf(plan).map(({ above, title, lines }) => [
      ...(above === undefined ? [] : [above]),
      `${title}: ${lines.length}`,
      ...lines.map((line) => `  ${line}`),
    ]);
    const notes = [
      ...plan.conflicts.map(
        (key) =>
          `Conflict: ${key} is claimed by a Service but belongs to a third party; it is kept`,
      ),
      ...keptTexts(plan),
      ...sctpPorts.map((name) => `Not served: ${name} (userspace mode does not support SCTP)`),
    ];
    const count = countChanges(plan);
    const total = `${counted(count, "change")} would be made, so plan exits with 2.`;
    const all = [
      ...(sections.length === 0 ? [["No changes."]] : sections),
      notes,
      count === 0 ? [] : [total],
    ];
    return all.flatMap((lines) => (lines.length === 0 ? [] : ["", ...lines])).slice(1);
  },
};

/** Counts what a clean-up removed, by type. Also lists tables and files. */
export function removedTexts(plan: Plan): readonly string[] {
  const sections = sectionsOf(plan);
  if (sections.length === 0) return ["Found nothing left by kube-ipvs"];
  return [
    "Removed:",
    ...sections.flatMap(({ above, title, lines }) => [
      ...(above === undefined ? [] : [`  ${above}`]),
      `  ${title}: ${lines.length}`,
      ...(title === tables || title === files ? lines.map((line) => `    ${line}`) : []),
    ]),
  ];
}

const tables = "nftables tables";
const files = "Files";

interface Section {
  /** A line before the title. */
  readonly above?: string;
  readonly title: string;
  readonly lines: readonly string[];
}

function sectionsOf(plan: Plan): readonly Section[] {
  const { listeners = [], unusedBackend } = plan;
  const [first, ...others] = groupsOf(unusedBackend?.changes ?? []);
  const { name = "" } = unusedBackend ?? {};
  const above = `In ${name}, which ${name.includes(" and ") ? "are" : "is"} not in use:`;
  return [
    {
      title: "Listeners",
      lines: listeners.map(({ text, portName }) => `${text}  # missing, service ${portName}`),
    },
    ...groupsOf(plan.changes, plan.iptablesBackend),
    ...(first === undefined ? [] : [{ ...first, above }]),
    ...others,
    { title: tables, lines: (plan.nftTables ?? []).map(removed) },
    { title: files, lines: (plan.files ?? []).map(removed) },
  ].filter(({ lines }) => lines.length > 0);
}

/** Lists what clean-up keeps, one line each, with the reason. */
export function keptTexts({ kubeProxy, kept = [] }: Pick<Plan, "kubeProxy" | "kept">): string[] {
  const rules = "Kept rules of kube-proxy's iptables and nftables modes";
  return [
    ...(kubeProxy === undefined ? [] : [`${rules}: ${kubeProxy}`]),
    ...kept.map(({ subject, reason }) => `Kept ${subject}: ${reasons[reason]?.text}`),
  ];
}

const fixedHeadings: Readonly<Record<string, string>> = {
  module: "Kernel modules",
  sysctl: "Sysctls",
  link: "Link",
  set: "Sets",
  entry: "Set entries",
  "virtual-server": "Virtual servers",
  "real-server": "Real servers",
  address: "Addresses on kube-ipvs0",
  conntrack: "Conntrack entries",
};

/** `backend`: the iptables backend, or `nftables` for rules without iptables. Undefined if none is known. */
export function rulesWriter(backend: string | undefined): "iptables" | "nf_tables" {
  return backend === "nftables" ? "nf_tables" : "iptables";
}

/** The changes by object type, in order of first occurrence. */
function groupsOf(
  changes: readonly PlannedChange[],
  backend?: Plan["iptablesBackend"],
): readonly Section[] {
  const groups = Map.groupBy(changes, ({ subject }) => subject.type);
  const headings: typeof fixedHeadings = {
    ...fixedHeadings,
    chain: `${rulesWriter(backend)} chains and jumps`,
  };
  return [...groups].map(([type, group]) => ({
    title: headings[type] ?? type,
    lines: group.map(changeLine),
  }));
}

function changeLine({ text, reason, services, deferred }: PlannedChange): string {
  const service = services.length === 0 ? [] : [`service ${services.join(" ")}`];
  const notes = [reason, ...service, ...(deferred === undefined ? [] : [`waiting: ${deferred}`])];
  return `${text}  # ${notes.join(", ")}`;
}

function removed(name: string): string {
  return `- ${name}`;
}
