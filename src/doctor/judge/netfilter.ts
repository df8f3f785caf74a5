/** Connection tracking, sets, and the rules of others. Pure. */
import { counted } from "../../base/counted.ts";
import { fail, type Judgement, ok, unknown, warn } from "../check.ts";
import { judging, type NodeFacts } from "../facts.ts";

const countPath = "net/netfilter/nf_conntrack_count";
const maxPath = "net/netfilter/nf_conntrack_max";
const nearlyFull = 0.8;
const full = 0.95;

export function judgeConntrack({ sysctls, isBeforeInstall }: NodeFacts): Judgement {
  const count = Number(sysctls.get(countPath) ?? Number.NaN);
  const max = Number(sysctls.get(maxPath) ?? Number.NaN);
  if (!Number.isFinite(count) || !Number.isFinite(max)) {
    const evidence = "nf_conntrack is not loaded";
    return isBeforeInstall ? ok(`${evidence} yet`) : unknown(evidence, "modprobe nf_conntrack");
  }
  const evidence = `${count} of ${max} entries`;
  const remedy = `raise conntrack.maxPerCore or conntrack.min, or sysctl -w net.netfilter.nf_conntrack_max=${max * 2}`;
  if (count >= max * full) return fail(evidence, remedy);
  return count >= max * nearlyFull ? warn(evidence, remedy) : ok(evidence);
}

const forwardingPath = "net/ipv4/ip_forward";

export function judgeForwarding({ sysctls }: NodeFacts): Judgement {
  const value = sysctls.get(forwardingPath);
  if (value === undefined) return unknown("the kernel shows no net.ipv4.ip_forward");
  const evidence = `net.ipv4.ip_forward is ${value}`;
  return value === "1" ? ok(evidence) : fail(evidence, "sysctl -w net.ipv4.ip_forward=1");
}

export function judgeSets({ sets }: NodeFacts): Judgement {
  return judging(sets, (all) => {
    const ours = all.filter(
      ({ name, type }) => name.startsWith("KUBE-") && type.startsWith("hash:"),
    );
    const isFilled =
      (share: number) =>
      ({ elementCount, maxElements }: (typeof ours)[number]): boolean =>
        elementCount >= maxElements * share;
    const tight = ours.filter(isFilled(nearlyFull));
    if (tight.length === 0) return ok(`${counted(ours.length, "set")}, none is nearly full`);
    const words = tight.map(
      ({ name, elementCount, maxElements }) =>
        `${name} has ${elementCount} of ${maxElements} entries`,
    );
    const remedy =
      "kube-ipvs replaces a set that gets too small with a larger one; kube-proxy does not, and leaves Services out";
    return tight.some(isFilled(1))
      ? fail(words.join("; "), remedy)
      : warn(words.join("; "), remedy);
  });
}

export function judgeBackends({ backends }: NodeFacts): Judgement {
  return judging(backends, ({ legacy, nft }) => {
    if (!legacy.isInstalled && !nft.isInstalled) {
      return fail("neither iptables-nft nor iptables-legacy is installed", "install iptables");
    }
    const rules = `nft has ${counted(nft.ruleCount, "rule")}, legacy ${legacy.ruleCount}`;
    if (legacy.ruleCount === 0 || nft.ruleCount === 0) return ok(rules);
    const remedy =
      "configure every program of the node to use one of them, then reboot; iptables-nft-save and iptables-legacy-save show the rules";
    return warn(`${rules}: both decide over every packet`, remedy);
  });
}

export function judgeLeftovers({ backends, nftTables, mode }: NodeFacts): Judgement {
  return judging(nftTables, (tables) =>
    judging(backends, ({ legacy, nft }) => {
      if (tables.length > 0) {
        const remedy = tables.map((table) => `nft delete table ${table}`).join("; ");
        return fail(`kube-proxy's mode nftables left table ${tables.join(", ")}`, remedy);
      }
      if ((legacy.hasPortals || nft.hasPortals) && mode !== "userspace") {
        const holder = legacy.hasPortals ? "legacy" : "nft";
        return warn(
          `mode userspace left chains in ${holder}`,
          "a start of kube-ipvs removes them; before one: kube-ipvs --cleanup",
        );
      }
      const chains = legacy.leftoverChainCount + nft.leftoverChainCount;
      if (mode === "iptables")
        return ok(`no table of mode nftables; ${chains} chains of this mode`);
      if (chains === 0) return ok("neither chains of mode iptables nor tables of mode nftables");
      const backend = legacy.leftoverChainCount > nft.leftoverChainCount ? "legacy" : "nft";
      const evidence = `kube-proxy's mode iptables left ${counted(chains, "chain")} in ${backend}`;
      if (mode === "userspace") return ok(`${evidence}, which a first sync removes`);
      return warn(
        evidence,
        "set kubeIpvs.removeLeftovers: true, or kube-ipvs --cleanup before a start",
      );
    }),
  );
}
