/** Runs the contract suite on the real kernel, with a network namespace for each case. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "../../src/base/clock.ts";
import { type Logger, silentLogger } from "../../src/base/log.ts";
import { chooseBackend } from "../../src/kernel/iptables/backend.ts";
import type { AddressChange } from "../../src/kernel/kernel.ts";
import { NftRulesClient } from "../../src/kernel/nftables/rules-client.ts";
import { NftSetsClient } from "../../src/kernel/nftables/sets-client.ts";
import { openKernel } from "../../src/kernel/open-kernel.ts";
import { runProgram } from "../../src/kernel/run-program.ts";
import { nativeSocket } from "../../src/netlink/native-socket.ts";
import { cleanUp } from "../../src/reconcile/clean-up.ts";
import { noOwnershipRecord } from "../../src/reconcile/ownership/ownership.ts";
import type { VirtualAddresses } from "../../src/state/dummy-link.ts";
import type { Flow } from "../../src/state/flow.ts";
import { describeKernelContract, describeOtherContracts } from "../contract/all-contracts.ts";
import { type ContractKernel, contractCase, ip } from "../contract/contract-kernel.ts";
import { describeIpSetsContract } from "../contract/ip-sets-contract.ts";
import { describeIptablesContract } from "../contract/iptables-contract.ts";
import { describeLinkContract } from "../contract/link-contract.ts";
import { describeUnreadableRulesContract } from "../contract/unreadable-rules-contract.ts";
import {
  createNetworkNamespace,
  enterNetworkNamespace,
  leaveNetworkNamespace,
  removeNetworkNamespace,
  shell,
} from "../support/netns/network-namespace.ts";

const namespace = "contract";
/** A native rule that iptables cannot express. */
const nativeRule = "numgen random mod 2 0 counter";
/** Prints the reason if rules or their generation cannot be read. */
const log: Logger = { ...silentLogger, info: (event, keys) => console.error(event, keys) };
/** Undefined if iptables is not installed. Rules are then written with nf_tables. */
const iptablesBackend = await chooseBackend(runProgram).catch(() => undefined);
const rules = iptablesBackend === undefined ? { rules: "nftables" as const } : { iptablesBackend };
const hasNfTables = await supportsNfTables();

async function openRealKernel(
  virtualAddresses: VirtualAddresses = "addresses",
): Promise<ContractKernel> {
  createNetworkNamespace(namespace);
  enterNetworkNamespace(namespace);
  const kernel = await openKernel({ log, ...rules, virtualAddresses });
  const others = await openKernel({ log: silentLogger, ...rules });
  return {
    kernel,
    others,
    addFlow: (flow) => void shell(conntrackCommand(flow)),
    addForeignRule(table, chain, text) {
      shell(`iptables -t ${table} -A ${chain} ${text}`);
      return text;
    },
    addNativeRule(table, chain) {
      const hooks = { nat: "type nat hook postrouting", filter: "type filter hook input" };
      const priority = { nat: "srcnat", filter: "filter" };
      shell(`
        nft add table ip ${table}
        nft add chain ip ${table} ${chain} '{ ${hooks[table]} priority ${priority[table]}; }'
        nft add rule ip ${table} ${chain} ${nativeRule}
      `);
    },
    removeNativeRules(table, chain) {
      const listed = shell(`nft -a list chain ip ${table} ${chain}`);
      for (const [, handle] of listed.matchAll(/numgen .* # handle (\d+)/g)) {
        shell(`nft delete rule ip ${table} ${chain} handle ${handle}`);
      }
    },
    addGateways: (ipv4, ipv6) => void shell(routeCommands(ipv4, ipv6)),
    isLinkUp: () => /<[^>]*\bUP\b/.test(shell("ip link show kube-ipvs0")),
    close() {
      kernel.close();
      others.close();
      leaveNetworkNamespace();
      removeNetworkNamespace(namespace);
    },
  };
}

/** The `conntrack -I` command for an entry like one that a packet to a virtual server creates. */
function conntrackCommand(flow: Flow): string {
  return [
    `conntrack -I -p ${flow.protocol.toLowerCase()} -t 60`,
    `-s ${flow.source} --sport ${flow.sourcePort}`,
    `-d ${flow.destination} --dport ${flow.destinationPort}`,
    `-r ${flow.replySource} --reply-port-src ${flow.replySourcePort}`,
    `-q ${flow.source} --reply-port-dst ${flow.sourcePort}`,
    ...(flow.protocol === "TCP" ? ["--state ESTABLISHED"] : []),
    "2>&1",
  ].join(" ");
}

/** Routes with one hop, several hops, only a link, a gateway of the other family, and in another table. */
function routeCommands(ipv4: string, ipv6: string): string {
  return `
    ip link add gate0 type dummy
    ip link set gate0 up
    ip address add ${ipv4}1/24 dev gate0
    ip address add ${ipv6}1/64 dev gate0 nodad
    ip route add default via ${ipv4}
    ip route add 198.51.100.0/24 nexthop via ${ipv4} dev gate0 nexthop dev gate0
    ip route add 203.0.113.0/24 via inet6 ${ipv6} dev gate0
    ip route add 10.0.0.0/8 dev gate0
    ip route add blackhole 10.99.0.0/16
    ip route add 10.1.0.0/16 via ${ipv4}9 table 77
    ip route add default via ${ipv6}
  `;
}

/** Whether the kernel can create tables. Debian's lab kernel loads nf_tables, but supports no family. */
async function supportsNfTables(): Promise<boolean> {
  const rules = new NftRulesClient({ shim: nativeSocket, clock: systemClock }, "the contract");
  try {
    return (await rules.probe("IPv4")).isSupported;
  } finally {
    rules.close();
  }
}

/** Opens a kernel with nf_tables sets and rules instead of ipset and iptables. */
async function openNftKernel(): Promise<ContractKernel> {
  const contract = await openRealKernel();
  const parts = { shim: nativeSocket, clock: systemClock };
  const ipSets = new NftSetsClient(parts);
  const otherSets = new NftSetsClient(parts);
  const iptables = new NftRulesClient(parts, "the test selects it");
  return {
    ...contract,
    kernel: { ...contract.kernel, ipSets, iptables },
    others: { ...contract.others, ipSets: otherSets },
    addForeignRule(table, chain) {
      const hook = `type ${table} hook ${chain.toLowerCase()} priority 0`;
      shell(`
        nft add table ip kube-ipvs
        nft add chain ip kube-ipvs ${table}-${chain} '{ ${hook}; }'
        nft add rule ip kube-ipvs ${table}-${chain} ip saddr 192.0.2.1 drop
      `);
      return "a rule of other software";
    },
    close() {
      ipSets.close();
      otherSets.close();
      iptables.close();
      contract.close();
    },
  };
}

if (iptablesBackend === undefined) {
  it("kernel: ip sets and rules", { skip: "iptables is not installed" });
  describeOtherContracts("kernel", openRealKernel);
} else {
  describeKernelContract("kernel", openRealKernel);
}
if (hasNfTables) {
  describeIpSetsContract("nf_tables", openNftKernel, { capacities: false, references: false });
  describeIptablesContract("nf_tables", openNftKernel);
} else {
  it("nf_tables: ip sets and rules", { skip: "this kernel has no nf_tables" });
}
describeLinkContract("kernel, local routes", () => openRealKernel("routes"));

/** The link client binds virtual IPs as addresses, or as local routes. These tests change from one form to the other. */
describe("virtual IPs that change between addresses and routes", () => {
  const change = (kind: "add" | "remove", ...texts: readonly string[]): AddressChange[] =>
    texts.map((text) => ({ kind: `address-${kind}`, address: ip(text) }));
  const localTypes = (...addresses: readonly string[]): readonly string[] =>
    addresses.map((address) => shell(`ip route get ${address} 2>&1 || true`).split(" ")[0] ?? "");
  const onLink = (): string => shell("ip -o -4 address show dev kube-ipvs0").trim();
  const routes = (): string => shell("ip route show table local proto 75").trim();

  contractCase(
    () => openRealKernel("routes"),
    "addresses become routes and remain local throughout; foreign routes remain",
    async ({ link }, { others }) => {
      await link.ensure();
      await others.link.apply(change("add", "10.96.0.1", "10.96.0.2", "fd00:96::1"));
      shell("ip route add local 10.96.0.9 dev lo table local");
      assert.equal(await link.removeOtherForm(), 2);
      assert.equal(await link.removeOtherForm(), 0);
      assert.equal(onLink(), "");
      assert.equal(routes().split("\n").length, 2);
      assert.deepEqual(localTypes("10.96.0.1", "10.96.0.2", "10.96.0.9"), Array(3).fill("local"));
      await link.remove();
      assert.equal(routes(), "");
    },
  );

  contractCase(
    () => openRealKernel("routes"),
    "routes become addresses, and are listed and removed as such until then",
    async ({ link }, { others }) => {
      await link.ensure();
      await link.apply(change("add", "10.96.0.1", "10.96.0.2", "10.96.0.3"));
      await others.link.apply(change("add", "10.96.0.1"));
      await others.link.apply(change("remove", "10.96.0.2"));
      const listed = (await others.link.listAddresses()).map(({ address }) => address);
      assert.deepEqual(
        ["10.96.0.1", "10.96.0.2", "10.96.0.3"].map((text) => listed.includes(ip(text))),
        [true, false, true],
      );
      assert.equal(await others.link.removeOtherForm(), 2);
      assert.equal(routes(), "");
      assert.equal(onLink().split("\n").length, 2);
      assert.deepEqual(localTypes("10.96.0.1", "10.96.0.3"), ["local", "local"]);
    },
  );

  contractCase(
    () => openRealKernel("routes"),
    "routes that outlive a link are removed by --cleanup",
    async (kernel) => {
      await kernel.link.ensure();
      await kernel.link.apply(change("add", "10.96.0.1"));
      shell("ip link delete kube-ipvs0");
      assert.equal(routes().split("\n").length, 1);
      const ipvs = {
        nodeAddresses: new Set([ip("192.168.10.11")]),
        record: noOwnershipRecord,
        ownership: { foreignVirtualServers: "keep" as const, excludeCIDRs: [] },
        hasIpvs: true,
      };
      const goal = { rules: new Map(), ipvs };
      const { failures } = await cleanUp({ kernel, clock: systemClock }, goal);
      assert.deepEqual([failures, routes()], [[], ""]);
    },
  );

  contractCase(
    () => openRealKernel("routes"),
    "a manually bound address is removed with its route",
    async ({ link }, { others }) => {
      await link.ensure();
      await others.link.apply(change("add", "10.96.0.1"));
      await link.apply(change("remove", "10.96.0.1"));
      assert.deepEqual([onLink(), routes()], ["", ""]);
    },
  );
});
// Legacy tables cannot contain such rules.
if (iptablesBackend?.backend === "nft") describeUnreadableRulesContract("kernel", openRealKernel);
