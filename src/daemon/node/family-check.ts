/** Checks whether the configuration, node and kernel agree on IP families. Pure. */
import type { NodeRecord } from "../../api/objects.ts";
import { type Cidr, familyOf, type IpAddress, type IpFamily, isWildcard } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";

export interface FamilyFinding {
  readonly reason: string;
  /** If true, the program must exit instead of serving Services. */
  readonly isFatal: boolean;
}

export interface FamilyFacts {
  readonly config: Config;
  /** IP families that iptables and the kernel support on this node. */
  readonly families: readonly IpFamily[];
  /** Undefined until the API server has reported the Node object, or if there is no API server. */
  readonly node: NodeRecord | undefined;
}

/** The family of bindAddress or, if that is a wildcard, of the Node object's first address; otherwise IPv4. */
export function primaryFamily({ config, node }: Pick<FamilyFacts, "config" | "node">): IpFamily {
  const { bindAddress } = config;
  if (!isWildcard(bindAddress)) return familyOf(bindAddress);
  const [first] = node?.addresses ?? [];
  return first === undefined ? "IPv4" : familyOf(first);
}

/** Lists the IP family mismatches that kube-proxy also reports at startup. */
export function checkFamilies(facts: FamilyFacts): readonly FamilyFinding[] {
  const { config, families, node } = facts;
  const primary = primaryFamily(facts);
  const isDualStack = families.length > 1;
  const { detectLocal: local } = config;
  const findings: FamilyFinding[] = [];
  const note = (what: string, cidrs: readonly Cidr[], isFatal: boolean): void => {
    if (!isOnlyOther(addressesOf(cidrs), primary)) return;
    const reason = `${what} has no network of the node's primary IP family, ${primary}`;
    findings.push({ reason, isFatal });
  };
  if (!families.includes(primary)) {
    const reason = `the node's primary IP family, ${primary}, is not supported on this node`;
    findings.push({ reason, isFatal: true });
  }
  if (local.kind === "cluster-cidr") note("clusterCIDR", local.cidrs, !isDualStack);
  note("the podCIDRs field of the Node", node?.podCidrs ?? [], local.kind === "node-cidr");
  if (!isDualStack) findings.push(...singleStackFindings(facts, primary));
  findings.push(...nodePortFindings(facts, primary));
  return findings;
}

function singleStackFindings({ config }: FamilyFacts, primary: IpFamily): readonly FamilyFinding[] {
  const items: readonly (readonly [what: string, addresses: readonly IpAddress[]])[] = [
    ["ipvs.excludeCIDRs", addressesOf(config.excludeCIDRs)],
    ["healthzBindAddress", specific(config.healthzBindAddress?.address)],
    ["metricsBindAddress", specific(config.metricsBindAddress.address)],
  ];
  return items
    .filter(([, addresses]) => isOnlyOther(addresses, primary))
    .map(([what]) => ({
      reason: `${what} is not in the primary IP family, ${primary}`,
      isFatal: false,
    }));
}

/**
 * Reports node ports that are open on more addresses than the operator may have intended. None of these findings is
 * fatal.
 */
function nodePortFindings(
  { config, families }: FamilyFacts,
  primary: IpFamily,
): readonly FamilyFinding[] {
  const given = config.nodePortAddresses;
  if (given.kind === "primary") return [];
  if (given.kind === "all") {
    const advice = "consider nodePortAddresses: [primary]";
    const reason = `nodePortAddresses is unset, so node ports are open on all local IPs; ${advice}`;
    return [{ reason, isFatal: false }];
  }
  const covered = new Set(addressesOf(given.cidrs).map(familyOf));
  const open = [primary, ...families].find((family) => !covered.has(family));
  if (open === undefined) return [];
  const reason = `nodePortAddresses has no ${open} network, so node ports are open on all local ${open} IPs`;
  return [{ reason, isFatal: false }];
}

function addressesOf(cidrs: readonly Cidr[]): readonly IpAddress[] {
  return cidrs.map(({ address }) => address);
}

/** Returns an array with the address, or an empty array for a wildcard, which belongs to no family. */
function specific(address: IpAddress | undefined): readonly IpAddress[] {
  return address === undefined || isWildcard(address) ? [] : [address];
}

function isOnlyOther(addresses: readonly IpAddress[], family: IpFamily): boolean {
  return addresses.length > 0 && addresses.every((address) => familyOf(address) !== family);
}
