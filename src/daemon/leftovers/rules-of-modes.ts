/** Recognizes the chains and jumps of each mode, both ours and kube-proxy's. Pure. */
import type { IpFamily } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
import { isOfIptablesMode } from "../../kernel/iptables/backend.ts";
import type { Iptables } from "../../kernel/kernel.ts";
import { fixedChains, fixedJumps } from "../../plan/iptables/fixed-chains.ts";
import type { IptablesOptions } from "../../plan/iptables/options.ts";
import { sharedChains } from "../../plan/iptables/shared-chains.ts";
import { planEmptyRules } from "../../plan/rules.ts";
import { namesIn, type RuleNames } from "../../reconcile/iptables/plan-rules-removal.ts";
import type { ChainKey, RuleSet } from "../../state/rule.ts";
import { portalRules } from "../../userspace/portal-rules.ts";

export type Mode = Config["mode"];

/** Recognizes jumps of kube-proxy's iptables mode by their comments. Their other matches vary between its versions. */
const iptablesJumps =
  /(?:^| )-m comment --comment "kubernetes (?:(?:service|externally-visible service) portals|health check service ports|load balancer firewall)" -j KUBE-/;

function isIptablesChain(key: ChainKey): boolean {
  const [table = "", name = ""] = key.split(" ");
  return isOfIptablesMode(table, name);
}

/** The chain of iptables mode in the mangle table. Listing it makes the observer read that table. */
const iptablesPlaces: RuleSet = {
  chains: [{ table: "mangle", name: "KUBE-PROXY-CANARY", rules: [] }],
  jumps: [],
};

/** Placeholder options; the names of chains and jumps do not depend on them. */
const anyOptions: IptablesOptions = {
  shared: {
    place: { nodeName: "", zone: "" },
    families: new Map(),
    scheduler: "",
    masqueradeAll: false,
    masqueradeMark: 0,
  },
  families: new Map(),
  hasCounters: false,
  tcpBeLiberal: false,
  largeFamilies: new Set(),
};

/** The chains and jumps to read in order to find leftovers of any mode. */
export function rulesOfAnyMode(family: IpFamily, config: Config): RuleSet {
  const sets = [ipvsRules(family, config), portalRules(family, []), iptablesPlaces];
  return {
    chains: sets.flatMap(({ chains }) => chains),
    jumps: sets.flatMap(({ jumps }) => jumps),
  };
}

/** The names of chains and jumps of all given modes. */
export function namesOfModes(
  modes: readonly Mode[],
  family: IpFamily,
  config: Config,
  { render }: Pick<Iptables, "render">,
): RuleNames {
  const ofEach = modes.map((mode): RuleNames => {
    if (mode === "iptables") {
      return {
        hasChain: (key) => isIptablesChain(key),
        hasJump: (_, text) => iptablesJumps.test(text),
      };
    }
    const rules = mode === "ipvs" ? ipvsRules(family, config) : portalRules(family, []);
    return namesIn(rules, (rule) => render(family, rule));
  });
  return {
    hasChain: (key) => ofEach.some((names) => names.hasChain(key)),
    hasJump: (key, text) => ofEach.some((names) => names.hasJump(key, text)),
  };
}

/** Includes the rules for port ranges and tunnels, because an earlier run may have served them. */
function ipvsRules(family: IpFamily, config: Config): RuleSet {
  const { portRangeMarks = 1 } = config;
  return planEmptyRules(family, { ...config, portRangeMarks, isTunnelingEnabled: true });
}

/** The names of chains and jumps that a running mode writes. */
export function namesInUse(
  mode: Mode,
  family: IpFamily,
  config: Config,
  iptables: Pick<Iptables, "render">,
): RuleNames {
  if (mode === "ipvs")
    return namesIn(
      planEmptyRules(family, { ...config, isTunnelingEnabled: config.tunnelForwarding }),
      (rule) => iptables.render(family, rule),
    );
  if (mode === "userspace") return namesOfModes([mode], family, config, iptables);
  const chains = [...fixedChains(anyOptions), ...sharedChains].map((chain) => {
    return { ...chain, rules: [] };
  });
  const servesLoopback = family === "IPv4";
  const jumps = fixedJumps({ servesAllAddresses: true, nodePortAddresses: [], servesLoopback });
  const shared = namesIn({ chains, jumps }, (rule) => iptables.render(family, rule));
  return {
    hasChain: (key) => shared.hasChain(key) || isIptablesChain(key),
    hasJump: shared.hasJump,
  };
}
