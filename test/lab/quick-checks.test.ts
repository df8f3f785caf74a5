/**
 * Tests that third-party removals are repaired, and changes of the node's links and addresses are applied, long before
 * the next periodic sync, which is an hour away in this test.
 */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { after, before, beforeEach, describe, it } from "node:test";
import { silentLogger } from "../../src/base/log.ts";
import type { RulesScope } from "../../src/kernel/kernel.ts";
import { openKernel } from "../../src/kernel/open-kernel.ts";
import { nodeSetUp } from "../golden/node-set-up.ts";
import { eventually, type LabDaemon, startLabDaemon } from "../support/lab-daemon.ts";
import {
  createNetworkNamespace,
  enterNetworkNamespace,
  leaveNetworkNamespace,
  removeNetworkNamespace,
  shell,
} from "../support/netns/network-namespace.ts";
import { endpoint, endpointSlice, service, servicePort } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";

const namespace = "checks";
const rulePeriodMs = 1_000;
const hourMs = 3_600_000;
const setPeriodMs = 5_000;
const foreignRuleCount = 10_000;

const web = service({
  type: "LoadBalancer",
  ports: [servicePort({ nodePort: 30_080 })],
  spec: { externalIPs: ["203.0.113.5"] },
  status: { loadBalancer: { ingress: [{ ip: "203.0.113.10" }] } },
});
const slice = endpointSlice({ endpoints: [endpoint("10.244.1.10", { nodeName: "node-1" })] });

let daemon: LabDaemon;

before(async () => {
  createNetworkNamespace(namespace, nodeSetUp);
  enterNetworkNamespace(namespace);
  shell(
    "iptables -A INPUT -s 192.0.2.1/32 -j DROP; iptables -t nat -A OUTPUT -d 192.0.2.2/32 -j RETURN",
  );
  daemon = await start(rulePeriodMs);
});

after(async () => {
  await daemon.stop();
  leaveNetworkNamespace();
  removeNetworkNamespace(namespace);
});

function start(ruleCheckPeriodMs: number): Promise<LabDaemon> {
  return startLabDaemon([web, slice], {
    "kube-ipvs-rule-check-period": `${ruleCheckPeriodMs}ms`,
  });
}

async function restart(ruleCheckPeriodMs: number): Promise<void> {
  assert.deepEqual(daemon.errors, []);
  await daemon.stop();
  daemon = await start(ruleCheckPeriodMs);
}

function rules(): string {
  return shell("iptables-save; ip6tables-save").replaceAll(/ \[\d+:\d+\]$|^#.*\n/gm, "");
}

function chain(name: string, table = "filter"): readonly string[] {
  return shell(`iptables -t ${table} -S ${name}`).split("\n").slice(1, -1);
}

function sets(): string {
  return shell("ipset save | sort").replaceAll(/ (?:hashsize|bucketsize) \d+| initval \S+/g, "");
}

function addresses(link: string): readonly string[] {
  const found = shell(`ip -o -4 address show ${link} 2>/dev/null || true`).matchAll(
    /inet (\S+)\//g,
  );
  return [...found].map(([, address]) => address ?? "").sort();
}

function nodePorts(): readonly string[] {
  const found = shell("ipvsadm -Sn").matchAll(/^-A -t (\S+):30080 /gm);
  return [...found].map(([, address]) => address ?? "").sort();
}

async function changes(kind: string): Promise<number> {
  const lines = await daemon.metrics(
    `kube_ipvs_kernel_changes_total{kind="${kind}",result="success"}`,
  );
  return Number(lines[0]?.split(" ").at(-1) ?? 0);
}

/** Number of written chains, and of inserted or removed jumps. */
async function ruleChanges(): Promise<number> {
  const kinds = ["chain-write", "jump-insert", "jump-remove"];
  const counts = await Promise.all(kinds.map(changes));
  return counts.reduce((sum, count) => sum + count, 0);
}

describe("rules that third parties remove", () => {
  let wanted: string;
  beforeEach(() => {
    wanted = rules();
  });

  const losses: readonly {
    readonly name: string;
    readonly command: string;
    readonly writes: number;
  }[] = [
    {
      name: "the upper jump in INPUT",
      command:
        "iptables -D INPUT $(iptables -S INPUT | grep -n KUBE-IPVS-FILTER | cut -d: -f1 | awk '{print $1-1}')",
      writes: 1,
    },
    { name: "one rule", command: "iptables -t nat -D KUBE-SERVICES 2", writes: 1 },
    { name: "the rules of a chain", command: "ip6tables -F KUBE-FORWARD", writes: 1 },
  ];
  for (const { name, command, writes } of losses) {
    it(`are restored with one write: ${name}`, async (test) => {
      const before = await ruleChanges();
      shell(command);
      assert.notEqual(rules(), wanted);
      const ms = await eventually(rules, wanted, rulePeriodMs + patienceMs);
      await daemon.settled();
      assert.equal((await ruleChanges()) - before, writes);
      test.diagnostic(`${ms.toFixed(0)} ms`);
    });
  }

  it("are restored in order after another firewall flushed their tables at startup", async (test) => {
    const jumps = chain("INPUT").filter((line) => line.includes("KUBE-"));
    shell("for table in nat filter; do iptables -t $table -F; iptables -t $table -X; done");
    const ms = await eventually(() => chain("INPUT"), jumps, rulePeriodMs + patienceMs);
    await daemon.settled();
    const ours = (text: string): readonly string[] =>
      text.split("\n").filter((line) => !/192\.0\.2\./.test(line));
    assert.deepEqual(ours(rules()).toSorted(), ours(wanted).toSorted());
    test.diagnostic(`${ms.toFixed(0)} ms`);
  });

  it("stay below rules that a third party inserts above them", async () => {
    shell("iptables -I INPUT -s 192.0.2.9/32 -j ACCEPT; iptables -t nat -I OUTPUT -j RETURN");
    const writes = await ruleChanges();
    const stands = [chain("INPUT"), chain("OUTPUT", "nat")];
    await pause(3 * rulePeriodMs);
    assert.deepEqual([chain("INPUT"), chain("OUTPUT", "nat")], stands);
    assert.equal(await ruleChanges(), writes);
    shell("iptables -D INPUT -s 192.0.2.9/32 -j ACCEPT; iptables -t nat -D OUTPUT -j RETURN");
  });
});

describe("rules that disappear between two checks", () => {
  before(() => restart(hourMs));
  after(() => restart(rulePeriodMs));

  it("are checked immediately if a restore fails because they no longer exist", async (test) => {
    // A new set entry rewrites this chain, which cannot be written without its target.
    shell("iptables -t nat -F; iptables -t nat -X");
    const before = await daemon.metrics("kube_ipvs_drift_detected_total");
    const ranges = service({
      name: "b",
      type: "LoadBalancer",
      clusterIps: ["10.96.0.11"],
      spec: { loadBalancerSourceRanges: ["198.51.100.0/24"], externalTrafficPolicy: "Local" },
      status: { loadBalancer: { ingress: [{ ip: "203.0.113.11" }] } },
    });
    const beganMs = performance.now();
    daemon.apply(ranges);
    await daemon.settled();
    const isBack = (): boolean => rules().includes("-A KUBE-SERVICES -s 127.0.0.0/8 -j RETURN");
    await eventually(isBack, true, patienceMs);
    assert.deepEqual(await daemon.metrics("kube_ipvs_drift_detected_total"), before);
    test.diagnostic(`${(performance.now() - beganMs).toFixed(0)} ms`);
    daemon.delete(ranges);
    await daemon.settled();
  });
});

describe("sets that a third party changes", () => {
  const losses: readonly [name: string, command: string][] = [
    ["emptied", "ipset flush KUBE-CLUSTER-IP; ipset flush KUBE-NODE-PORT-TCP"],
    ["filled", "ipset add KUBE-LOOP-BACK 10.9.9.9,tcp:1,10.9.9.9"],
    [
      "destroyed, with the rules",
      "iptables -F KUBE-IPVS-FILTER; ipset destroy KUBE-EXTERNAL-IP-LOCAL || ipset flush KUBE-EXTERNAL-IP-LOCAL; ipset flush KUBE-IPVS-IPS",
    ],
  ];
  for (const [name, command] of losses) {
    it(`are restored within ${setPeriodMs / 1000} s: ${name}`, async (test) => {
      const [wantedSets, wantedRules] = [sets(), rules()];
      shell(command);
      assert.notEqual(sets(), wantedSets);
      const ms = await eventually(sets, wantedSets, setPeriodMs + patienceMs);
      await eventually(rules, wantedRules, patienceMs);
      test.diagnostic(`${ms.toFixed(0)} ms`);
    });
  }
});

describe("links and addresses", () => {
  const own = ["172.16.5.11", "192.168.10.11"];
  const noticedMs = 1_000 + patienceMs;

  it("a new address serves node ports immediately, and a removed one no longer does", async (test) => {
    assert.deepEqual(nodePorts(), own);
    shell("ip address add 192.168.10.77/24 dev eth0");
    const ms = await eventually(nodePorts, [...own, "192.168.10.77"].sort(), noticedMs);
    shell("ip address del 192.168.10.77/24 dev eth0");
    await eventually(nodePorts, own, noticedMs);
    test.diagnostic(`${ms.toFixed(0)} ms`);
  });

  it("the link-local address of a node-local DNS is treated as a node address", async () => {
    shell("ip link add nodelocaldns type dummy; ip address add 169.254.20.10/32 dev nodelocaldns");
    await eventually(nodePorts, ["169.254.20.10", ...own], noticedMs);
    assert.deepEqual(addresses("nodelocaldns"), ["169.254.20.10"]);
    shell("ip link del nodelocaldns");
    await eventually(nodePorts, own, noticedMs);
  });

  it("a load balancer's address that keepalived moves to this node is removed from kube-ipvs0", async () => {
    assert.ok(addresses("kube-ipvs0").includes("203.0.113.10"));
    shell("ip address add 203.0.113.10/32 dev eth0");
    await eventually(() => addresses("kube-ipvs0").includes("203.0.113.10"), false, noticedMs);
    assert.match(shell("ipvsadm -Sn"), /-A -t 203\.0\.113\.10:80 /);
    assert.match(shell("ip route get 203.0.113.10"), /^local 203\.0\.113\.10 dev lo/);
    shell("ip address del 203.0.113.10/32 dev eth0");
    await eventually(() => addresses("kube-ipvs0").includes("203.0.113.10"), true, noticedMs);
    assert.match(shell("ip route get 203.0.113.10"), /^local 203\.0\.113\.10 dev lo/);
    assert.deepEqual(nodePorts(), own);
  });

  it("an address that a third party removes from or adds to kube-ipvs0 is restored or removed", async () => {
    const wanted = addresses("kube-ipvs0");
    shell("ip address del 10.96.0.10/32 dev kube-ipvs0; ip address add 10.9.9.9/32 dev kube-ipvs0");
    await eventually(() => addresses("kube-ipvs0"), wanted, noticedMs);
  });

  it("kube-ipvs0 is recreated with all addresses if it is deleted", async (test) => {
    const wanted = addresses("kube-ipvs0");
    assert.equal(wanted.length, 3);
    shell("ip link del kube-ipvs0");
    const ms = await eventually(() => addresses("kube-ipvs0"), wanted, noticedMs);
    test.diagnostic(`${ms.toFixed(0)} ms`);
  });

  it("no change caused an error", () => {
    assert.deepEqual(daemon.errors, []);
  });
});

describe(`with ${foreignRuleCount.toLocaleString("en")} third-party rules`, () => {
  it("a check reads only the chains of kube-ipvs", async (test) => {
    const lines = Array.from(
      { length: foreignRuleCount },
      (_, index) =>
        `-A OTHERS -s 10.${index >> 8}.${index & 255}.1/32 -p tcp -m tcp --dport 80 -j ACCEPT`,
    );
    const text = ["*filter", ":OTHERS - [0:0]", ...lines, "COMMIT", ""].join("\n");
    writeFileSync("/run/others", text);
    shell("iptables-restore --noflush < /run/others");
    const kernel = await openKernel({ log: silentLogger });
    const rulesRead = async (scope?: RulesScope): Promise<number> => {
      const began = process.cpuUsage();
      const chains = await kernel.iptables.observe("IPv4", scope);
      const { user, system } = process.cpuUsage(began);
      test.diagnostic(
        `${scope === undefined ? "all chains" : "our chains"}: ${((user + system) / 1_000).toFixed(0)} ms of ours`,
      );
      return chains.reduce((sum, chain) => sum + chain.rules.length, 0);
    };
    const all = await rulesRead();
    const chain = { table: "filter", name: "KUBE-SERVICES", rules: [] } as const;
    const target = { kind: "jump", chain: "KUBE-SERVICES" } as const;
    const jump = { table: "filter", from: "INPUT", rule: { matches: [], target } } as const;
    const ours = await rulesRead({ planned: { chains: [chain], jumps: [jump] } });
    kernel.close();
    assert.ok(all > foreignRuleCount, `${all}`);
    assert.ok(ours > 0 && ours < 30, `${ours}`);
    shell("iptables -t filter -F OTHERS; iptables -X OTHERS");
  });
});

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
