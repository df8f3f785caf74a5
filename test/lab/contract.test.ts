/** The contract suite against the real kernel, each case in a network namespace of its own. */
import { silentLogger } from "../../src/base/log.ts";
import { chooseBackend } from "../../src/kernel/iptables/backend.ts";
import { openKernel } from "../../src/kernel/open-kernel.ts";
import { runProgram } from "../../src/kernel/program.ts";
import type { Flow } from "../../src/state/flow.ts";
import { describeKernelContract } from "../contract/all-contracts.ts";
import type { ContractKernel } from "../contract/contract-kernel.ts";
import {
  createNetworkNamespace,
  enterNetworkNamespace,
  leaveNetworkNamespace,
  removeNetworkNamespace,
  shell,
} from "../support/netns/network-namespace.ts";

const namespace = "contract";
const iptablesBackend = await chooseBackend(runProgram);

async function openRealKernel(): Promise<ContractKernel> {
  createNetworkNamespace(namespace);
  enterNetworkNamespace(namespace);
  const kernel = await openKernel({ log: silentLogger, iptablesBackend });
  return {
    kernel,
    addFlow: (flow) => void shell(conntrackCommand(flow)),
    addForeignRule(table, chain, text) {
      shell(`iptables -t ${table} -A ${chain} ${text}`);
    },
    isLinkUp: () => /<[^>]*\bUP\b/.test(shell("ip link show kube-ipvs0")),
    close() {
      kernel.close();
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

describeKernelContract("kernel", openRealKernel);
