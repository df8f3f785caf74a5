/**
 * Converts recorded and planned tables to the same form. Pure. In shared chains, kube-proxy writes Service rules in the
 * random order of a Go map, and kube-ipvs orders them by rank and age. The rules of shared chains are therefore sorted,
 * except the last rule of KUBE-SERVICES in nat, which must stay last.
 */
import type { IpFamily } from "../../src/base/ip.ts";
import { renderRule } from "../../src/kernel/iptables/render.ts";
import { sharedChains } from "../../src/plan/iptables/shared-chains.ts";
import type { RuleSet } from "../../src/state/rule.ts";

const tables = ["filter", "nat"] as const;
const lastOfAll = "NOTE: this must be the last rule in this chain";
const builtIn: Readonly<Record<(typeof tables)[number], readonly string[]>> = {
  filter: ["INPUT", "FORWARD", "OUTPUT"],
  nat: ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
};

/**
 * Converts a recorded file to one line for each chain and rule; each line begins with the table. mangle contains only
 * canary chains.
 */
export function recordedForm(text: string): string {
  let table = "";
  const chains = new Map<string, string[]>();
  for (const line of text.split("\n")) {
    const [, chain = ""] = line.split(/[ :]/);
    if (line.startsWith("*")) table = line.slice(1);
    else if (line.startsWith(":")) chains.set(`${table} ${chain}`, []);
    else if (line.startsWith("-A ")) {
      const name = line.split(" ", 2)[1] ?? "";
      chains.get(`${table} ${name}`)?.push(line.slice(`-A ${name} `.length));
    }
  }
  return formOf(chains);
}

/** Returns the state after a complete restore into empty tables. */
export function plannedForm(family: IpFamily, { chains, jumps }: RuleSet): string {
  const planned = new Map<string, string[]>();
  for (const table of tables)
    for (const name of builtIn[table]) planned.set(`${table} ${name}`, []);
  for (const { table, name, rules } of chains) {
    planned.set(
      `${table} ${name}`,
      rules.map((rule) => renderRule(family, rule)),
    );
  }
  planned.set("filter KUBE-FIREWALL", []);
  for (const { table, from, rule } of jumps) {
    planned.get(`${table} ${from}`)?.unshift(renderRule(family, rule));
  }
  return formOf(planned);
}

function formOf(chains: ReadonlyMap<string, readonly string[]>): string {
  const names = [...chains.keys()].filter(
    (name) => !name.includes("CANARY") && !name.startsWith("mangle"),
  );
  const lines = names.sort().flatMap((name) => {
    const rules = chains.get(name) ?? [];
    const isShared = sharedChains.some(({ key }) => key === name);
    return [name, ...(isShared ? inSharedOrder(rules) : rules).map((rule) => `  ${rule}`)];
  });
  return `${lines.join("\n")}\n`;
}

function inSharedOrder(rules: readonly string[]): readonly string[] {
  const last = rules.filter((rule) => rule.includes(lastOfAll));
  const rest = rules.slice(0, rules.length - last.length);
  return [...rest.toSorted(), ...rules.slice(rest.length)];
}
