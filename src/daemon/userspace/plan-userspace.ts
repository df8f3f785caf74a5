/**
 * Plans what starting in userspace mode would do on this node: listeners to open and rules to write. Opens and writes
 * nothing.
 */
import { errorText } from "../../base/error-text.ts";
import { hostPort, type IpFamily } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import { finish } from "../../base/time-slice.ts";
import type { Config } from "../../config/config.ts";
import { parseRule } from "../../kernel/iptables/parse-rule.ts";
import type { Iptables, ObservedChain } from "../../kernel/kernel.ts";
import type { listListeningSockets } from "../../kernel/listening-sockets.ts";
import { openIptables, type UsableIptables } from "../../kernel/open-iptables.ts";
import { type ChangePlan, emptyPlan } from "../../reconcile/change-plan.ts";
import { diffRules, type PlannedRuleChange } from "../../reconcile/kinds/diff-rules.ts";
import { cachedRulesInSteps } from "../../reconcile/observed/cached-rules.ts";
import type { Rule } from "../../state/rule.ts";
import { findListeners, type SoughtListener } from "../../userspace/find-listeners.ts";
import type { OpenListener } from "../../userspace/listener.ts";
import { isLedTo, portalRules } from "../../userspace/portal-rules.ts";
import { byKey, type ServiceListener } from "../../userspace/service-listeners.ts";

export interface UserspacePlan {
  /** Listeners to open. */
  readonly listeners: readonly SoughtListener[];
  /** Listeners that a process already has open. */
  readonly found: readonly OpenListener[];
  /** Changes to chains and jumps. Rules for a listener that is not open have port 0. */
  readonly rules: ChangePlan;
}

type Rules = Pick<Iptables, "observe" | "render">;

/** State read from the node. */
export interface SeenKernel {
  /** Undefined if iptables is not available and there are only listeners. */
  readonly usable: (Pick<UsableIptables, "families"> & { readonly iptables: Rules }) | undefined;
  readonly sockets: ReturnType<typeof listListeningSockets>;
}

/** `wanted` are the listeners with the addresses that their Services own. Rejects if rules cannot be read. */
export async function planUserspace(
  wanted: readonly ServiceListener[],
  { usable, sockets }: SeenKernel,
  { bindAddress }: Pick<Config, "bindAddress">,
): Promise<UserspacePlan> {
  const observed = await observe(usable);
  const sought = findListeners(
    wanted.toSorted(byKey),
    { bindAddress, isRedirected: usable !== undefined },
    { sockets, rulesOf: (family, chain) => rulesIn(observed.get(family) ?? [], chain) },
  );
  const changes = usable === undefined ? [] : ruleChanges(usable, observed, sought);
  return {
    listeners: sought.filter(
      ({ wanted: one, address, localPorts }) =>
        localPorts === undefined && (address.isRedirected !== true || isLedTo(one)),
    ),
    found: sought.flatMap(({ wanted: one, localPorts }) =>
      localPorts === undefined ? [] : [{ wanted: one, localPorts }],
    ),
    rules: { ...emptyPlan, changes },
  };
}

type Observed = ReadonlyMap<IpFamily, readonly ObservedChain[]>;

async function observe(usable: SeenKernel["usable"]): Promise<Observed> {
  const observed = new Map<IpFamily, readonly ObservedChain[]>();
  for (const family of usable?.families ?? []) {
    const planned = portalRules(family, []);
    observed.set(family, (await usable?.iptables.observe(family, { planned })) ?? []);
  }
  return observed;
}

function rulesIn(chains: readonly ObservedChain[], name: string): readonly Rule[] {
  const chain = chains.find((one) => one.table === "nat" && one.name === name);
  return (chain?.rules ?? []).flatMap(({ text }) => parseRule(text) ?? []);
}

function ruleChanges(
  { iptables, families }: NonNullable<SeenKernel["usable"]>,
  observed: Observed,
  sought: readonly SoughtListener[],
): readonly PlannedRuleChange[] {
  const open = sought.map(openOnceStarted);
  return families.flatMap((family) => {
    const render = (rule: Rule): string => iptables.render(family, rule);
    const planned = portalRules(family, open);
    const cached = finish(cachedRulesInSteps(observed.get(family) ?? [], planned, render));
    return finish(diffRules({ family, planned, cached }));
  });
}

/** Uses port 0 for a listener that is not open, because its port is not known yet. */
function openOnceStarted({ wanted, localPorts }: SoughtListener): OpenListener {
  return { wanted, localPorts: localPorts ?? { port: 0, portOnLoopback: 0 } };
}

/**
 * Opens iptables. If it cannot be used, logs the reason and resolves to undefined; there are then only listeners and no
 * rules.
 */
export async function findIptables(
  { bindAddress, observeOnly }: Pick<Config, "bindAddress" | "observeOnly">,
  log: Logger,
  open: (log: Logger) => Promise<UsableIptables> = openIptables,
): Promise<UsableIptables | undefined> {
  try {
    const usable = await open(log);
    log.info("Using iptables", { backend: usable.iptables.backend, ipFamilies: usable.families });
    return usable;
  } catch (error) {
    const doing = observeOnly ? "planning listeners" : "listening";
    const event = `Cannot use iptables; ${doing} only at node ports and service ports`;
    log.warn(event, { bindAddress, err: errorText(error) });
    return undefined;
  }
}

/**
 * Describes a listener to open: `+ TCP 0.0.0.0 at a free port for 10.96.0.10:80, node port 30080`. Pure.
 */
export function listenerText({ wanted, address }: SoughtListener): string {
  const { protocol, nodePort } = wanted;
  const place =
    address.port === 0 ? `${address.host} at a free port` : hostPort(address.host, address.port);
  const ways = [...addressesOf(wanted), ...(nodePort === 0 ? [] : [`node port ${nodePort}`])];
  const led = address.isRedirected === true ? ` for ${ways.join(", ")}` : "";
  return `+ ${protocol} ${place}${led}`;
}

/** The virtual IPs and ports that rules redirect to the listener, such as `10.96.0.10:80`. Pure. */
export function addressesOf({
  addresses,
  port,
}: Pick<SoughtListener["wanted"], "addresses" | "port">): readonly string[] {
  return addresses.map((address) => hostPort(address, port));
}
