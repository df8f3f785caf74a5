/** The contract suite against the real kernel, each case in a network namespace of its own. */
import { silentLogger } from "../../src/base/log.ts";
import { chooseBackend } from "../../src/kernel/iptables/backend.ts";
import { openKernel } from "../../src/kernel/open-kernel.ts";
import { runProgram } from "../../src/kernel/run-program.ts";
import type { Flow } from "../../src/state/flow.ts";
import { describeKernelContract } from "../contract/all-contracts.ts";
import type { ContractKernel } from "../contract/contract-kernel.ts";
import { describeUnreadableRulesContract } from "../contract/unreadable-rules-contract.ts";
import {
  createNetworkNamespace,
  enterNetworkNamespace,
  leaveNetworkNamespace,
  removeNetworkNamespace,
  shell,
} from "../support/netns/network-namespace.ts";

const namespace = "contract";
/** iptables has nothing like it. */
const nativeRule = "numgen random mod 2 0 counter";
const iptablesBackend = await chooseBackend(runProgram);

async function openRealKernel(): Promise<ContractKernel> {
  createNetworkNamespace(namespace);
  enterNetworkNamespace(namespace);
  const kernel = await openKernel({ log: silentLogger, iptablesBackend });
  const others = await openKernel({ log: silentLogger, iptablesBackend });
  return {
    kernel,
    others,
    addFlow: (flow) => void shell(conntrackCommand(flow)),
    addForeignRule(table, chain, text) {
      shell(`iptables -t ${table} -A ${chain} ${text}`);
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

/** `conntrack -I`: an entry as a packet to a virtual server would leave it. */
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

/** One hop, several, a link alone, a gateway of the other family, and one in a table of its own. */
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

describeKernelContract("kernel", openRealKernel);
// Legacy tables cannot hold such rules.
if (iptablesBackend.backend === "nft") describeUnreadableRulesContract("kernel", openRealKernel);
