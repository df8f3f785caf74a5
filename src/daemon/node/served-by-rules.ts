/** In iptables and userspace mode, reads from the rules which Services an earlier run or kube-proxy served. */
import { type IpAddress, type IpFamily, parseCidr } from "../../base/ip.ts";
import type { Protocol } from "../../base/protocol.ts";
import { parseRule } from "../../kernel/iptables/parse-rule.ts";
import type { Iptables } from "../../kernel/kernel.ts";
import { servicePortName } from "../../model/service-port.ts";
import { type Claim, type Holder, type Holders, holderOf } from "../../plan/claims/claim.ts";
import type { UndecidedClaim } from "../../plan/claims/claims.ts";
import type { Match, Rule } from "../../state/rule.ts";
import { type ServerKey, virtualServerKey } from "../../state/virtual-server.ts";
import { portalChains } from "../../userspace/portal-rules.ts";

type RulesMode = "iptables" | "userspace";

/** nat chains with one rule for each address and port. The rule's comment begins with the service port's name. */
const entrances: Readonly<Record<RulesMode, readonly string[]>> = {
  iptables: ["KUBE-SERVICES", "KUBE-NODEPORTS"],
  userspace: [portalChains.fromElsewhere],
};

const endpointChain = /^KUBE-SEP-[A-Z2-7]{16}$/;

/** Addresses of Services that have rules and, in iptables mode, addresses of the endpoints in those rules. */
export interface ServedByRules {
  readonly services: ReadonlySet<IpAddress>;
  readonly endpoints: ReadonlySet<IpAddress>;
}

/** Reads the rules of these families. Rejects if they cannot be read. */
export async function readServedByRules(
  mode: RulesMode,
  iptables: Pick<Iptables, "observe">,
  families: readonly IpFamily[],
): Promise<ServedByRules> {
  const services = new Set<IpAddress>();
  const endpoints = new Set<IpAddress>();
  for (const family of families) {
    for (const [chain, rule] of await readRules(mode, iptables, family)) {
      const address = chain === entrances[mode][0] ? addressOf(rule) : undefined;
      if (address !== undefined) services.add(address);
      else if (rule.target.kind === "translate") endpoints.add(rule.target.address);
    }
  }
  return { services, endpoints };
}

/**
 * Finds the owners of a family's contested addresses that have no recorded owner. The owner of an address and port is
 * the Service that the comment of their first rule names. Reads nothing if there are no such addresses. Rejects if
 * rules cannot be read.
 */
export async function findHoldersInRules(
  mode: RulesMode,
  undecided: readonly UndecidedClaim<Claim>[],
  iptables: Pick<Iptables, "observe">,
  family: IpFamily,
): Promise<Holders<ServerKey>> {
  const holders = new Map<ServerKey, Holder>();
  const ofFamily = undecided.filter(
    ({ claims: [first] }) => first?.plan.servicePort.family === family,
  );
  if (ofFamily.length === 0) return holders;
  const rules = await readRules(mode, iptables, family);
  // Reversed, because the map keeps the last item with a key, but the kernel applies the first matching rule.
  const names = new Map(rules.toReversed().flatMap(([, rule]) => nameOf(rule)));
  for (const { key, claims } of ofFamily) {
    const served = claims.find(({ plan: { servicePort } }) => {
      const { protocol, nodePort } = servicePort;
      const isNodePort = nodePort !== 0 && key.endsWith(`:${nodePort}`);
      const name = names.get(key) ?? (isNodePort ? names.get(`${protocol} ${nodePort}`) : "");
      return name === servicePortName(servicePort);
    });
    if (served !== undefined) holders.set(key, holderOf(served));
  }
  return holders;
}

/** The rules in the {@link entrances} and in the endpoints' chains, each with the name of its chain. */
async function readRules(
  mode: RulesMode,
  iptables: Pick<Iptables, "observe">,
  family: IpFamily,
): Promise<readonly (readonly [chain: string, rule: Rule])[]> {
  const names = entrances[mode];
  const chains = names.map((name) => ({ table: "nat", name, rules: [] }) as const);
  const observed = await iptables.observe(family, {
    planned: { chains, jumps: [] },
    ...(mode === "iptables" ? { hasOthers: true } : {}),
  });
  return observed
    .filter(
      ({ table, name }) => table === "nat" && (names.includes(name) || endpointChain.test(name)),
    )
    .flatMap(({ name, rules }) =>
      rules.flatMap(({ text }) => {
        const rule = parseRule(text);
        return rule === undefined ? [] : [[name, rule] as const];
      }),
    );
}

function addressOf({ matches }: Rule): IpAddress | undefined {
  return parseCidr(matchOf(matches, "destination")?.cidr ?? "")?.address;
}

/** The service port name in the rule's comment, by claim key. The key of a node port has no address: `TCP 30080`. */
function nameOf(rule: Rule): readonly (readonly [key: string, name: string])[] {
  const { protocol: word, destination: port } = matchOf(rule.matches, "port") ?? {};
  const name = matchOf(rule.matches, "comment")?.text.split(" ")[0];
  if (word === undefined || port === undefined || name === undefined) return [];
  const protocol = word.toUpperCase() as Protocol;
  const address = addressOf(rule);
  const key =
    address === undefined ? `${protocol} ${port}` : virtualServerKey({ protocol, address, port });
  return [[key, name]];
}

function matchOf<K extends Match["kind"]>(
  matches: readonly Match[],
  kind: K,
): Extract<Match, { kind: K }> | undefined {
  return matches.find((match): match is Extract<Match, { kind: K }> => match.kind === kind);
}
