/**
 * What kube-proxy's mode iptables leaves in the tables of iptables when a node goes on in mode ipvs: chains for each
 * Service and endpoint, which no rule leads to any more, and rules in filter that go on refusing. Pure.
 */
import { checkChainName } from "./names.ts";

/**
 * Chains that only mode iptables makes, by table. Those that both modes make (KUBE-SERVICES in nat, KUBE-POSTROUTING,
 * KUBE-MARK-MASQ, KUBE-FORWARD, KUBE-PROXY-FIREWALL) are ours by now; KUBE-FIREWALL, KUBE-MARK-DROP and the hints are
 * kubelet's. 16 characters of base 32 name a Service or an endpoint; XLB was EXT before 1.24.
 */
const leftoverNames: Readonly<Record<string, RegExp>> = {
  nat: /^KUBE-(?:(?:SVC|SEP|SVL|EXT|FW|XLB)-[A-Z2-7]{16}|NODEPORTS|PROXY-CANARY)$/,
  filter: /^KUBE-(?:SERVICES|EXTERNAL-SERVICES|NODEPORTS|PROXY-CANARY)$/,
  mangle: /^KUBE-PROXY-CANARY$/,
};

/** How kube-proxy marks the jumps that only mode iptables makes. */
const jumpComments: ReadonlySet<string> = new Set([
  "kubernetes service portals",
  "kubernetes externally-visible service portals",
  "kubernetes health check service ports",
]);

/** Leads to a chain of both modes, from more places than mode ipvs does. */
const firewallJump =
  / -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL$/;

export interface LeftoverRemoval {
  /** Input of `iptables-restore --noflush`; empty: there is nothing to remove. */
  readonly input: string;
  /** Chains, and rules in other chains that lead to them. */
  readonly removedCount: number;
  /** Chains that rules of other programs lead to: `nat KUBE-SVC-ERIFXISQEP7F7OF4`. */
  readonly kept: readonly string[];
}

/** False for rules that lead to no chain of mode iptables: there may be hundreds of thousands. */
export function mayConcernLeftovers(line: string): boolean {
  return !line.startsWith("-A ") || / -[jg] KUBE-/.test(line);
}

/** Chains of mode iptables in what `iptables-save` printed: `nat KUBE-SEP-…`. */
export function findLeftoverChains(saved: string): readonly string[] {
  const found: string[] = [];
  let table = "";
  for (const [, opened, chain = ""] of saved.matchAll(/^(?:\*(\S+)|:(KUBE-\S+) )/gm)) {
    if (opened !== undefined) table = opened;
    else if (isLeftover(table, chain)) found.push(`${table} ${chain}`);
  }
  return found;
}

/**
 * Plans the removal from what `iptables-save` printed. `emptied`: chains of ours, as `nat KUBE-SERVICES`, that are removed
 * next; where a rule in one of them leads to a leftover, it is emptied.
 */
export function planLeftoverRemoval(saved: string, emptied: ReadonlySet<string>): LeftoverRemoval {
  const removals = readTables(saved).map((table) => removalIn(table, emptied));
  return {
    input: removals.map(({ input }) => input).join(""),
    removedCount: removals.reduce((total, { removedCount }) => total + removedCount, 0),
    kept: removals.flatMap(({ kept }) => kept),
  };
}

interface SavedRule {
  readonly chain: string;
  /** Behind `-A CHAIN `. */
  readonly text: string;
}

interface SavedTable {
  readonly name: string;
  readonly leftovers: ReadonlySet<string>;
  /** Those that lead to a leftover, or to the firewall as mode iptables does. */
  readonly rules: readonly SavedRule[];
}

function readTables(saved: string): readonly SavedTable[] {
  return saved
    .split(/^\*/m)
    .slice(1)
    .map((text) => {
      const lines = text.split("\n");
      const name = lines[0] ?? "";
      const chains = lines.flatMap((line) => /^:(\S+) /.exec(line)?.[1] ?? []);
      const leftovers = new Set(chains.filter((chain) => isLeftover(name, chain)));
      return { name, leftovers, rules: lines.flatMap((line) => leadingRule(line, leftovers)) };
    });
}

function leadingRule(line: string, leftovers: ReadonlySet<string>): readonly SavedRule[] {
  const [, chain = "", text = ""] = /^-A (\S+) (.*)$/.exec(line) ?? [];
  return leftovers.has(targetOf(text)) || firewallJump.test(text) ? [{ chain, text }] : [];
}

function removalIn(table: SavedTable, emptied: ReadonlySet<string>): LeftoverRemoval {
  const { name, leftovers } = table;
  const rules = table.rules.filter(({ chain }) => !leftovers.has(chain));
  const inOurs = rules.filter(({ chain }) => emptied.has(`${name} ${chain}`));
  const others = rules.filter(({ chain }) => !emptied.has(`${name} ${chain}`));
  const jumps = others.filter(({ text }) => isKubeProxyJump(text));
  const kept = keptChains(
    table,
    others.filter(({ text }) => !isKubeProxyJump(text)),
  );
  const removed = [...leftovers].filter((chain) => !kept.has(chain));
  const flushed = new Set([...inOurs.map(({ chain }) => chain), ...removed]);
  const lines = [
    ...[...flushed].map((chain) => `:${checkChainName(chain)} - [0:0]`),
    ...jumps.map(({ chain, text }) => `-D ${checkChainName(chain)} ${text}`),
    ...removed.map((chain) => `-X ${chain}`),
  ];
  return {
    input: lines.length === 0 ? "" : [`*${name}`, ...lines, "COMMIT", ""].join("\n"),
    removedCount: removed.length + jumps.length,
    kept: [...kept].map((chain) => `${name} ${chain}`),
  };
}

/** Those that `entries` lead to, at once or by way of a chain that is kept. */
function keptChains(
  { leftovers, rules }: SavedTable,
  entries: readonly SavedRule[],
): ReadonlySet<string> {
  const kept = new Set<string>();
  const pending = entries.map(({ text }) => targetOf(text));
  for (let chain = pending.pop(); chain !== undefined; chain = pending.pop()) {
    if (kept.has(chain) || !leftovers.has(chain)) continue;
    kept.add(chain);
    for (const rule of rules) if (rule.chain === chain) pending.push(targetOf(rule.text));
  }
  return kept;
}

function isLeftover(table: string, chain: string): boolean {
  return leftoverNames[table]?.test(chain) === true;
}

function isKubeProxyJump(text: string): boolean {
  const comment = /(?:^| )-m comment --comment "([^"]*)"/.exec(text)?.[1] ?? "";
  return jumpComments.has(comment) || firewallJump.test(text);
}

/** The words of a comment are none of the rule's. */
function targetOf(text: string): string {
  return /(?:^| )-[jg] (\S+)/.exec(text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""'))?.[1] ?? "";
}
