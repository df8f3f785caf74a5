import type { IpAddress, IpFamily } from "../../../src/base/ip.ts";
import type {
  KnownRoute,
  ListedRule,
  ListedServer,
  ListedSet,
  NodeNetwork,
  NodeState,
} from "../../../src/explain/packet/node-state.ts";
import { parseListedRule } from "../../../src/explain/read/parse-other-rule.ts";
import type { ObservedChain } from "../../../src/kernel/kernel.ts";
import { type ChainKey, chainKey } from "../../../src/state/rule.ts";
import { tunnelLinks } from "../../../src/state/tunnel-link.ts";
import { type ServerKey, virtualServerKey } from "../../../src/state/virtual-server.ts";
import type { FakeKernel } from "./fake-kernel.ts";

/** Simulates a default route: every address is reachable through one link. */
function everywhere(): ReadonlyMap<IpAddress, KnownRoute> {
  const route = { link: "eth0", isBridge: false };
  class DefaultRoute extends Map<IpAddress, KnownRoute> {
    override has = () => true;
    override get = () => route;
  }
  return new DefaultRoute();
}

/** The fake node's network state that kube-ipvs does not plan. */
const fakeNetwork: Omit<NodeNetwork, "addresses"> = {
  routes: everywhere(),
  listeners: new Set(),
  isIpvsTracked: true,
  isForwarding: true,
  isLoopbackRouted: false,
  unrouted: new Set(),
  bridgePeers: new Set(),
  strictLinks: new Map(),
  markRules: [],
  isBridgeFiltered: false,
};

/** Parsed rules. Each rule is parsed only once, because a request changes few rules. */
const parsed = new Map<string, ListedRule>();
const mostParsed = 50_000;

/** Forgets parsed rules, for tests that measure memory. */
export function forgetParsedRules(): void {
  parsed.clear();
}

/** Returns the fake kernel's state that affects packets of this family. */
export function nodeStateOf(
  { iptables, ipSets, ipvs, link }: FakeKernel,
  family: IpFamily,
): NodeState {
  const servers = ipvs
    .peek()
    .map((server): readonly [ServerKey, ListedServer] => [
      virtualServerKey(server.virtualServer),
      server,
    ]);
  return {
    chains: new ParsedChains(iptables.peek(family)),
    sets: new Map(listedSets({ ipSets })),
    servers: new Map(servers),
    bound: new Set<IpAddress>([...link.peek(), ...link.peekRoutes()]),
    network: {
      ...{ ...fakeNetwork, deliveringLink: tunnelLinks[family].name },
      addresses: new Set(link.peekNode().map(({ address }) => address)),
    },
    ...{ serviceSockets: [], onNode: new Set() },
  };
}

/**
 * Like {@link nodeStateOf}. If both writers have rules, there is one state for each filter table, because packets must
 * pass both.
 */
export function nodeStatesOf(kernel: FakeKernel, family: IpFamily): readonly NodeState[] {
  const state = nodeStateOf(kernel, family);
  if (kernel.unusedNames(family).length === 0) return [state];
  const { unusedRules } = kernel;
  const own = kernel.iptables.peek(family);
  // Both writers use the same names.
  const others = unusedRules.iptables.peek(family).map(({ table, name, rules }) => ({
    ...{ table, name: otherName(name) },
    rules: rules.map(({ text }) => ({ text: otherName(text) })),
  }));
  const otherSets = listedSets(unusedRules).map(([name, set]) => [otherName(name), set] as const);
  return [own, others].map((filter) => ({
    ...{ ...state, sets: new Map([...state.sets, ...otherSets]) },
    chains: new ParsedChains([
      ...filter.filter(({ table }) => table === "filter"),
      ...[...own, ...others].filter(({ table }) => table !== "filter"),
    ]),
  }));
}

function otherName(text: string): string {
  return text.replaceAll("KUBE-", "OTHER-");
}

function listedSets({
  ipSets,
}: Pick<FakeKernel, "ipSets">): readonly (readonly [string, ListedSet])[] {
  return ipSets
    .peek()
    .map(({ set, entries }) => [set.name, { type: set.type, entries: new Set(entries) }]);
}

/** Chains whose rules are parsed on access. A hostile Service may have a hundred thousand rules. */
class ParsedChains extends Map<ChainKey, readonly ListedRule[]> {
  constructor(observed: readonly ObservedChain[]) {
    super();
    for (const { table, name, rules } of observed) {
      const key = chainKey(table, name);
      this.#unparsed.set(key, [...(this.#unparsed.get(key) ?? []), ...rules]);
    }
  }

  readonly #unparsed = new Map<ChainKey, ObservedChain["rules"]>();

  override get(key: ChainKey): readonly ListedRule[] | undefined {
    const rules = this.#unparsed.get(key);
    if (rules !== undefined) {
      this.#unparsed.delete(key);
      super.set(
        key,
        rules.map(({ text }) => parsedRule(text)),
      );
    }
    return super.get(key);
  }
}

function parsedRule(text: string): ListedRule {
  const known = parsed.get(text) ?? parseListedRule(text);
  if (parsed.size >= mostParsed) forgetParsedRules();
  parsed.set(text, known);
  return known;
}
