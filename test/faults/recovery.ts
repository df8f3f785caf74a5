/** Damaged kernel states, with two ways to recover: a start, and `--cleanup` followed by a start. */
import assert from "node:assert/strict";
import { shell } from "../support/netns/network-namespace.ts";
import { Program } from "../support/program.ts";
import type { FaultyNode } from "./faulty-node.ts";

export interface BrokenState {
  readonly name: string;
  /** Shell lines that run after the program is killed. */
  readonly shellLines: string;
  /**
   * The damage removes the set entries that identify kube-ipvs' own virtual servers. The program is killed only when
   * nothing is pending. Otherwise, a virtual server whose Service had just been deleted would look like a foreign one
   * and would stay (decision 0013).
   */
  readonly losesMarks?: true;
  /** `make test` tests `--cleanup` only in these states. */
  readonly cleansUpInShortForm?: true;
}

const burst = 60;
const tables = ["nat", "filter", "mangle"];
const flushRules = ["iptables", "ip6tables"]
  .flatMap((program) => tables.map((table) => `${program} -t ${table} -F`))
  .join("\n");
const restoreOthers = ["iptables-restore", "ip6tables-restore"]
  .flatMap((program) =>
    tables.map(
      (table) =>
        `printf '*${table}\\n:OTHERS - [0:0]\\n-A OTHERS -j RETURN\\nCOMMIT\\n' | ${program}`,
    ),
  )
  .join("\n");

/** States that a kill, a partial reboot, an operator or a firewall service leaves behind. */
export const brokenStates: readonly BrokenState[] = [
  { name: "killed in a burst of changes", cleansUpInShortForm: true, shellLines: "true" },
  { name: "virtual servers cleared", shellLines: "ipvsadm -C" },
  {
    name: "half of the virtual servers missing",
    shellLines: "ipvsadm -Sn | grep -- ^-A | awk 'NR % 2 { print \"-D\", $2, $3 }' | ipvsadm -R",
  },
  {
    name: "virtual and real servers edited",
    shellLines: `
      ipvsadm -Sn | grep -- ^-A | awk 'NR % 2 { print "-E", $2, $3, "-s wrr" }' | ipvsadm -R
      ipvsadm -Sn | grep -- ^-a | awk 'NR % 2 { print "-e", $2, $3, $4, $5, "-m -w 7" }' | ipvsadm -R
      ipvsadm -Sn | grep -- ^-a | awk 'NR % 5 == 0 { print "-d", $2, $3, $4, $5 }' | ipvsadm -R
    `,
  },
  { name: "sets empty", shellLines: "ipset flush", losesMarks: true },
  { name: "link gone", shellLines: "ip link delete kube-ipvs0" },
  { name: "addresses gone", shellLines: "ip address flush dev kube-ipvs0" },
  { name: "rules flushed", shellLines: flushRules },
  {
    name: "rules and sets missing",
    losesMarks: true,
    cleansUpInShortForm: true,
    shellLines: `${flushRules}\n${flushRules.replaceAll("-F", "-X")}\nipset destroy`,
  },
  { name: "third-party rules restored over kube-ipvs's", shellLines: restoreOthers },
  {
    name: "a jump and a rule removed; an address, an entry and a real server added",
    cleansUpInShortForm: true,
    shellLines: `
      iptables -t nat -S PREROUTING | grep KUBE | head -1 | sed 's/^-A/-D/' | xargs iptables -t nat
      ip6tables -S KUBE-FORWARD | grep -- ^-A | head -1 | sed 's/^-A/-D/' | xargs ip6tables
      ip address add 10.9.9.9/32 dev kube-ipvs0
      ipset add KUBE-CLUSTER-IP 10.9.9.9,tcp:80
      ipvsadm -Sn | grep -- ^-A | head -1 | awk '{ print "-a", $2, $3, "-r 10.9.9.10:80 -m -w 1" }' | ipvsadm -R
    `,
  },
  {
    name: "a set recreated with a timeout",
    losesMarks: true,
    cleansUpInShortForm: true,
    shellLines: `
      ipset create ANEW hash:ip,port timeout 86400
      ipset swap ANEW KUBE-CLUSTER-IP
      ipset destroy ANEW
    `,
  },
  { name: "sysctl reset", shellLines: "echo 0 >/proc/sys/net/ipv4/vs/conntrack" },
];

/** Kills the program during or after a burst of changes, then damages the kernel state. */
async function breakState(
  node: FaultyNode,
  { shellLines, losesMarks }: BrokenState,
): Promise<void> {
  await node.churn(burst);
  if (losesMarks === true) await node.repaired();
  node.program.kill("SIGKILL");
  await node.program.ends();
  shell(shellLines);
}

/** Resolves when the start alone has restored the desired state. */
export async function recoverByStart(node: FaultyNode, state: BrokenState): Promise<void> {
  await breakState(node, state);
  await startAndServe(node);
}

/** Resolves when `--cleanup` has left nothing and the following start has restored the desired state. */
export async function recoverByCleanUp(node: FaultyNode, state: BrokenState): Promise<void> {
  await breakState(node, state);
  const cleanUp = new Program(["--cleanup"]);
  const { code } = await cleanUp.ends();
  assert.equal(code, 0, cleanUp.output);
  assert.deepEqual(nothingLeft(), { servers: "", entries: "", rules: "", link: "" });
  await startAndServe(node);
}

/** Asserts that the kernel state equals the plan, and that packets reach their endpoints. */
async function startAndServe(node: FaultyNode): Promise<void> {
  node.startProgram();
  await node.serves();
  await node.repaired();
  assert.equal(shell("cat /proc/sys/net/ipv4/vs/conntrack"), "1\n");
  node.traffic.reopen();
  await node.trafficFlows();
}

function nothingLeft(): Readonly<Record<"servers" | "entries" | "rules" | "link", string>> {
  const link = shell("ip -o link show dev kube-ipvs0 2>/dev/null || true");
  const rules = shell("(iptables-save; ip6tables-save) | grep KUBE || true");
  const servers = shell("ipvsadm -Sn").trim();
  const entries = shell("ipset save | grep KUBE || true");
  return { servers, entries, rules, link };
}
