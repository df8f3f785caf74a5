/** Inputs for IPVS mode's rules, and set matches with their comments. Pure. */
import type { IpFamily } from "../base/ip.ts";
import type { Match, Rule } from "../state/rule.ts";
import type { ServedRange } from "../state/served-range.ts";
import type { AddressServerId } from "../state/virtual-server.ts";
import type { EdgeOptions, LocalDetector } from "./options.ts";
import { comment } from "./rule-words.ts";
import { type SetRole, setFor } from "./sets.ts";

/** Everything that determines a family's rules. */
export interface RulesInput {
  readonly family: IpFamily;
  /** Roles of the sets that will contain at least one entry. */
  readonly filledSets: ReadonlySet<SetRole>;
  readonly deniedToNode: readonly AddressServerId[];
  readonly localDetector: LocalDetector | undefined;
  readonly masqueradeAll: boolean;
  readonly masqueradeMark: number;
  /** Mask of the marks for port ranges. If undefined, there are no chains for ranges. */
  readonly portRangeMarks?: number | undefined;
  readonly ranges?: readonly ServedRange[];
  /** If true, there are chains for tunnels. */
  readonly isTunnelingEnabled?: boolean | undefined;
  readonly tunnels?: readonly ServedRange[];
  /** Ports whose packets from a tunnel get no mark, so that the ordinary virtual server serves them. */
  readonly tunnelsWithoutMark?: readonly ServedRange[];
  /** If undefined, kube-proxy's behavior applies. */
  readonly edges?: EdgeOptions | undefined;
}

/** Comments of the rules that match a set. */
const setComments: Readonly<Partial<Record<SetRole, string>>> = {
  loopBack: "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose",
  clusterIp: "Kubernetes service cluster ip + port for masquerade purpose",
  externalIp: "Kubernetes service external ip + port for masquerade and filter purpose",
  externalIpLocal: "Kubernetes service external ip + port with externalTrafficPolicy=local",
  loadBalancerFirewall:
    "Kubernetes service load balancer ip + port for load balancer with sourceRange",
  loadBalancerLocal: "Kubernetes service load balancer ip + port with externalTrafficPolicy=local",
  loadBalancerSourceIp:
    "Kubernetes service load balancer ip + port + source IP for packet filter purpose",
  loadBalancerSourceCidr:
    "Kubernetes service load balancer ip + port + source cidr for packet filter purpose",
  nodePortTcp: "Kubernetes nodeport TCP port for masquerade purpose",
  nodePortLocalTcp: "Kubernetes nodeport TCP port with externalTrafficPolicy=local",
  nodePortUdp: "Kubernetes nodeport UDP port for masquerade purpose",
  nodePortLocalUdp: "Kubernetes nodeport UDP port with externalTrafficPolicy=local",
  nodePortSctp: "Kubernetes nodeport SCTP port for masquerade purpose with type 'hash ip:port'",
  nodePortLocalSctp:
    "Kubernetes nodeport SCTP port with externalTrafficPolicy=local with type 'hash ip:port'",
  healthCheckNodePort: "Kubernetes health check node port",
};

/** `-m set --match-set NAME DIRECTIONS`. Matches destination address and port by default. */
export function matchSet({ family }: RulesInput, role: SetRole, directions = "dst,dst"): Match {
  const { name, type } = setFor(role, family);
  return { kind: "set", name, type, directions: directions.split(",") as ("src" | "dst")[] };
}

/** The set match, preceded by the set's comment if there is one. */
export function described(input: RulesInput, role: SetRole, directions?: string): readonly Match[] {
  const text = setComments[role];
  const set = matchSet(input, role, directions);
  return text === undefined ? [set] : [comment(text), set];
}

/** Returns the rules if the set for `role` will contain an entry, otherwise none. */
export function when(input: RulesInput, role: SetRole, ...rules: readonly Rule[]): readonly Rule[] {
  return input.filledSets.has(role) ? rules : [];
}
