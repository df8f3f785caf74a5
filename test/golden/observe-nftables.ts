/**
 * Reads the rules and sets that kube-ipvs wrote with nf_tables. Uses the project's own clients, because only they print
 * rules in iptables format. `packet-paths` tests the rules' effects with packets.
 */
import { type IpFamily, ipFamilies } from "../../src/base/ip.ts";
import { silentLogger } from "../../src/base/log.ts";
import type { IpSets, ObservedChain } from "../../src/kernel/kernel.ts";
import { openKernel } from "../../src/kernel/open-kernel.ts";
import type { IpSet } from "../../src/state/ip-set.ts";
import type { KernelState } from "./kernel-state.ts";
import { ipsetForm, iptablesForm } from "./recorded-form.ts";

type RulesAndSets = Required<Pick<KernelState, "ipset" | "iptables" | "ip6tables">>;

/** The chains that iptables always prints. */
const builtIn = {
  filter: ["INPUT", "FORWARD", "OUTPUT"],
  nat: ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
  mangle: ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"],
} as const;

const setFamilies: Readonly<Record<IpFamily, string>> = { IPv4: "inet", IPv6: "inet6" };

/** `thirdParties` has the rules in iptables' own tables. */
export async function observeNftables(
  thirdParties: Pick<RulesAndSets, "iptables" | "ip6tables">,
): Promise<RulesAndSets> {
  const kernel = await openKernel({ log: silentLogger, rules: "nftables" });
  try {
    const [iptables = "", ip6tables = ""] = await Promise.all(
      ipFamilies.map(async (family) => {
        const others = thirdParties[family === "IPv4" ? "iptables" : "ip6tables"];
        return savedRules(await kernel.iptables.observe(family), others);
      }),
    );
    return {
      ipset: ipsetForm(await savedSets(kernel.ipSets)),
      iptables: iptablesForm(iptables),
      ip6tables: iptablesForm(ip6tables),
    };
  } finally {
    kernel.close();
  }
}

/** In the format of `iptables-save`. */
function savedRules(chains: readonly ObservedChain[], others: string): string {
  const lines = Object.entries(builtIn).flatMap(([table, names]) => {
    const found = chains.filter((chain) => chain.table === table);
    const ours = found.filter(({ name }) => name.startsWith("KUBE-"));
    return [
      `*${table}`,
      ...names.map((name) => `:${name} ACCEPT`),
      ...ours.map(({ name }) => `:${name} -`),
      ...found.flatMap(({ name, rules }) => rules.map(({ text }) => `-A ${name} ${text}`)),
      ...rulesIn(table, others),
    ];
  });
  return lines.join("\n");
}

/** Rules of third parties. `kernels/killed-moves` tests what happens to earlier rules of kube-proxy and kube-ipvs. */
function rulesIn(table: string, saved: string): readonly string[] {
  const section = saved.split(/^(?=\*)/m).find((one) => one.startsWith(`*${table}\n`)) ?? "";
  return section.split("\n").filter((line) => /^-A (?!KUBE-)/.test(line));
}

/** In the format of `ipset save`. */
async function savedSets(ipSets: IpSets): Promise<string> {
  const lines: string[] = [];
  for (const set of await ipSets.listSets()) {
    const { name, type, family = "IPv4" } = set;
    const isBitmap = type === "bitmap:port";
    lines.push(
      `create ${name} ${type} ${isBitmap ? "range 0-65535" : `family ${setFamilies[family]}`}`,
    );
    const own = { name, type, family: ipFamilyOf(name), maxElements: 0 } as IpSet;
    for (const entry of await ipSets.listEntries(own)) lines.push(`add ${name} ${entry}`);
  }
  return lines.join("\n");
}

function ipFamilyOf(setName: string): IpFamily {
  return setName.startsWith("KUBE-6-") ? "IPv6" : "IPv4";
}
