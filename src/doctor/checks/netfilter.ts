/** Checks connection tracking, ipsets, and other software's rules. */
import { counted } from "../../base/counted.ts";
import type { ObservedIpSet } from "../../state/ip-set.ts";
import { type Check, check, fail, ipvsMode, kernelModes, ok, unknown, warn } from "../check.ts";

const nearlyFull = 0.8;
const full = 0.95;

interface PortRange {
  readonly first: number;
  readonly last: number;
}

/** The API server's default of --service-node-port-range. */
const defaultNodePorts: PortRange = { first: 30_000, last: 32_767 };

/** The default range, unless Services have other node ports. */
function nodePortRange(served: readonly number[]): PortRange {
  const { first, last } = defaultNodePorts;
  if (served.every((port) => port >= first && port <= last)) return defaultNodePorts;
  return { first: Math.min(...served), last: Math.max(...served) };
}

/** Whether one range of ip_local_reserved_ports contains all node ports. The kernel joins adjacent ranges. */
function isReserved(reserved: string, { first, last }: PortRange): boolean {
  return reserved.split(",").some((range) => {
    const [low = Number.NaN, high = low] = range.split("-").map(Number);
    return low <= first && high >= last;
  });
}

export const netfilterChecks: readonly Check[] = [
  check({
    name: "conntrack",
    modes: kernelModes,
    why: "new connections are dropped when the conntrack table is full",
    read: ({ sysctl }) =>
      ["count", "max"].map((figure) => Number(sysctl(`net/netfilter/nf_conntrack_${figure}`))),
    judge([count = Number.NaN, max = Number.NaN], { isBeforeInstall }) {
      if (!Number.isFinite(count) || !Number.isFinite(max)) {
        const evidence = "nf_conntrack is not loaded";
        return isBeforeInstall ? ok(`${evidence} yet`) : unknown(evidence, "modprobe nf_conntrack");
      }
      const evidence = `${count} of ${max} entries`;
      const remedy = `raise conntrack.maxPerCore or conntrack.min, or sysctl -w net.netfilter.nf_conntrack_max=${max * 2}`;
      if (count >= max * full) return fail(evidence, remedy);
      return count >= max * nearlyFull ? warn(evidence, remedy) : ok(evidence);
    },
  }),
  check({
    name: "local-ports",
    why: "if a process on the node connects from a port that is also a node port, the replies go to the Service instead",
    read: async ({ sysctl, nodePorts }) => ({
      range: sysctl("net/ipv4/ip_local_port_range") ?? "",
      reserved: sysctl("net/ipv4/ip_local_reserved_ports") ?? "",
      nodePorts: nodePortRange(await nodePorts().catch(() => [])),
    }),
    judge({ range, reserved, nodePorts }) {
      const { first, last } = nodePorts;
      const [low = Number.NaN, high = Number.NaN] = range.split(/\s+/).map(Number);
      const evidence = `net.ipv4.ip_local_port_range is ${low} to ${high}`;
      if (!(low <= last && high >= first)) return ok(evidence);
      if (isReserved(reserved, nodePorts)) return ok(`${evidence}; node ports are reserved`);
      const all = [reserved, `${first}-${last}`].filter((text) => text !== "").join(",");
      return warn(
        `${evidence}, which contains the node ports ${first} to ${last}`,
        `sysctl -w net.ipv4.ip_local_reserved_ports=${all}, or net.ipv4.ip_local_port_range='32768 60999'`,
      );
    },
  }),
  check({
    name: "ipset-limits",
    modes: ipvsMode,
    why: "a full ipset rejects entries, so some Services work only partly",
    read: (node) => node.sets(),
    judge(all) {
      const ours = all.filter(
        ({ name, type }) => name.startsWith("KUBE-") && type.startsWith("hash:"),
      );
      const fillLevelOf = ({
        elementCount,
        maxElements = Number.POSITIVE_INFINITY,
      }: ObservedIpSet) => elementCount / maxElements;
      const tight = ours.filter((set) => fillLevelOf(set) >= nearlyFull);
      if (tight.length === 0) return ok(`${counted(ours.length, "set")}; none is nearly full`);
      const words = tight.map(
        ({ name, elementCount, maxElements }) =>
          `${name} has ${elementCount} of ${maxElements} entries`,
      );
      const isAnyFull = tight.some((set) => fillLevelOf(set) >= 1);
      return (isAnyFull ? fail : warn)(
        words.join("; "),
        "kube-ipvs replaces such a set with a larger one; with kube-proxy, a full set lacks entries of Services",
      );
    },
  }),
  check({
    name: "iptables-backends",
    modes: kernelModes,
    why: "the kernel applies both backends' rules, but each backend's programs show only their own",
    read: async (node) => ({ writer: await node.rulesWriter(), ...(await node.backends()) }),
    judge({ writer, legacy, nft }, { mode }) {
      if (!legacy.isInstalled && !nft.isInstalled) {
        const evidence = "neither iptables-nft nor iptables-legacy is installed";
        if (writer === "nftables") return ok(`${evidence}; rules are written with nf_tables`);
        const other = mode === "ipvs" ? ", or set kubeIpvs.rules: nftables" : "";
        return fail(evidence, `install iptables${other}`);
      }
      const rules = `nft has ${counted(nft.ruleCount, "rule")}, legacy ${legacy.ruleCount}`;
      if (legacy.ruleCount === 0 || nft.ruleCount === 0) return ok(rules);
      return warn(
        `${rules}: both apply to every packet`,
        "configure every program on the node to use the same backend, then reboot; iptables-nft-save and iptables-legacy-save show the rules",
      );
    },
  }),
  check({
    name: "leftovers",
    why: "rules of kube-proxy's other modes handle packets before IPVS",
    read: async (node) => ({ tables: await node.nftTables(), ...(await node.backends()) }),
    judge({ tables, legacy, nft }, { mode }) {
      if (tables.length > 0) {
        const remedy = tables.map((table) => `nft delete table ${table}`).join("; ");
        return fail(`kube-proxy's nftables mode left tables behind: ${tables.join(", ")}`, remedy);
      }
      if ((legacy.hasPortals || nft.hasPortals) && mode !== "userspace") {
        return warn(
          `userspace mode left chains behind in iptables-${legacy.hasPortals ? "legacy" : "nft"}`,
          "kube-ipvs removes them at startup; to remove them earlier, run kube-ipvs --cleanup",
        );
      }
      const chains = legacy.leftoverChainCount + nft.leftoverChainCount;
      if (mode === "iptables") return ok(`no nftables mode tables; ${chains} chains of this mode`);
      if (chains === 0) return ok("no iptables mode chains and no nftables mode tables");
      const backend = legacy.leftoverChainCount > nft.leftoverChainCount ? "legacy" : "nft";
      const evidence = `kube-proxy's iptables mode left ${counted(chains, "chain")} behind in iptables-${backend}`;
      if (mode === "userspace") return ok(`${evidence}, which the first sync removes`);
      return warn(
        evidence,
        "set kubeIpvs.removeLeftovers: true, or run kube-ipvs --cleanup before you start kube-ipvs",
      );
    },
  }),
];
