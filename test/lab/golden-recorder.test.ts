/**
 * Tests the recorder that the golden tests use. A recorded state that was restored with the operator's tools must be
 * observed as recorded, and a single kernel change must be detected in the right file.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  compareStates,
  type Difference,
  type KernelState,
  type StateFile,
} from "../golden/kernel-state.ts";
import { nodeSetUp } from "../golden/node-set-up.ts";
import { observeKernel } from "../golden/observe.ts";
import { replayLines } from "../golden/replay.ts";
import { readScenario } from "../golden/scenario.ts";
import { shell, withNetworkNamespace } from "../support/netns/network-namespace.ts";

/** The part of a recorded state that a replay can create: everything except health server answers. */
function recordedState(name: string, step: number): KernelState {
  const { health: _, ...state } = readScenario(name).steps[step]?.recorded ?? {};
  return state;
}

function replayed(state: KernelState, mutation = "true"): Promise<readonly Difference[]> {
  return withNetworkNamespace("golden", [...nodeSetUp, ...replayLines(state)], async () => {
    shell(mutation);
    return compareStates(state, await observeKernel([]));
  });
}

/** Together, these states contain every kind of recorded line. */
const names: readonly string[] = [
  "cfg-exclude-cidrs",
  "cfg-masquerade-bit",
  "cfg-scheduler-mh",
  "cfg-strict-arp",
  "cfg-timeouts",
  "clusterip-udp-affinity",
  "dual-stack-lb",
  "external-ips",
  "ipv6-mixed-external",
  "lb-local-health",
  "lb-source-range-host",
  "lb-source-ranges",
  "nodeport-local-sctp",
  "sctp-clusterip",
];

describe("the recorder", () => {
  for (const name of names) {
    it(`observes the recorded state: ${name}`, async () => {
      assert.deepEqual(await replayed(recordedState(name, 0)), []);
    });
  }
});

const mutations: readonly { readonly file: StateFile; readonly shell: string }[] = [
  { file: "ipvs", shell: "ipvsadm -d -t 10.96.0.10:80 -r 10.244.1.10:8080" },
  { file: "ipvs", shell: "ipvsadm -e -t 10.96.0.10:80 -r 10.244.1.10:8080 -m -w 0" },
  { file: "ipvs", shell: "ipvsadm -E -t 10.96.0.10:80 -s wrr" },
  { file: "ipvs", shell: "ipvsadm -A -u 10.96.0.99:80 -s rr" },
  { file: "ipset", shell: "ipset del KUBE-CLUSTER-IP 10.96.0.10,tcp:80" },
  { file: "ipset", shell: "ipset add KUBE-IPVS-IPS 10.96.0.11" },
  { file: "ipset", shell: "ipset destroy KUBE-NODE-PORT-UDP" },
  { file: "iptables", shell: "iptables -t nat -D KUBE-MARK-MASQ 1" },
  { file: "iptables", shell: "iptables -A KUBE-FORWARD -j ACCEPT" },
  { file: "iptables", shell: "iptables -N KUBE-OTHER" },
  { file: "iptables", shell: "iptables -P FORWARD DROP" },
  {
    file: "iptables",
    shell:
      "iptables -D KUBE-IPVS-FILTER 1; iptables -I KUBE-IPVS-FILTER 2 -m set --match-set KUBE-LOAD-BALANCER dst,dst -j RETURN",
  },
  { file: "ip6tables", shell: "ip6tables -t nat -F KUBE-POSTROUTING" },
  { file: "addresses", shell: "ip address del 10.96.0.10/32 dev kube-ipvs0" },
  { file: "addresses", shell: "ip address add fd00:96::10/128 dev kube-ipvs0" },
  { file: "link", shell: "ip link set kube-ipvs0 mtu 1400" },
  { file: "sysctl", shell: "echo 0 > /proc/sys/net/ipv4/vs/conntrack" },
  { file: "sysctl", shell: "ipvsadm --set 901 120 300" },
];

describe("a single change in the kernel", () => {
  for (const mutation of mutations) {
    it(`is detected: ${mutation.shell}`, async () => {
      const differences = await replayed(recordedState("clusterip-tcp", 0), mutation.shell);
      assert.notDeepEqual(differences, []);
      assert.deepEqual([...new Set(differences.map(({ file }) => file))], [mutation.file]);
    });
  }
});
