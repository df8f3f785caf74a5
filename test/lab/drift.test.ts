/**
 * Third parties change kube-ipvs's objects with the operator's tools. Each change must be found, counted by kind,
 * reported with the state before and after, and repaired with as few writes as possible. Repeats this with observeOnly.
 */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
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
import {
  changeEntry,
  deleteChain,
  deleteRule,
  destroySet,
  dropFrom,
  flushSet,
  inOrder,
  insertAccept,
  listRules,
  unlessNftables,
} from "../support/rules-writer.ts";

const namespace = "drift";
const clusterIp = "10.96.0.10";
const sysctlPath = "net.ipv4.vs.expire_nodest_conn";
const sysctlFile = `/proc/sys/${sysctlPath.replaceAll(".", "/")}`;

const web = service({
  type: "LoadBalancer",
  ports: [servicePort({ nodePort: 30_080 })],
  spec: { externalIPs: ["203.0.113.5"] },
  status: { loadBalancer: { ingress: [{ ip: "203.0.113.10" }] } },
});
const slice = endpointSlice({
  endpoints: [endpoint("10.244.1.10", { nodeName: "node-1" }), endpoint("10.244.2.11")],
});
/** Cluster IP, external IP, load-balancer IP, and a node port on both links. */
const serverCount = 5;

before(() => {
  createNetworkNamespace(namespace, nodeSetUp);
  enterNetworkNamespace(namespace);
  shell(dropFrom("192.0.2.1"));
});

after(() => {
  leaveNetworkNamespace();
  removeNetworkNamespace(namespace);
});

/**
 * All of kube-ipvs's objects, in the format of the operator's tools. Read once per case, because processes are
 * expensive in the lab.
 */
function state(): string {
  const printed = shell(
    `ipvsadm -Sn | sort; ${listRules}; cat ${sysctlFile}; ` +
      "ip -o address show kube-ipvs0 2>/dev/null | sort -k 4 || true",
  );
  return inOrder(printed)
    .replaceAll(/ (?:hashsize|bucketsize) \d+| initval \S+/g, "")
    .replaceAll(/ \[\d+:\d+\]$|^#.*\n|^.*192\.0\.2\..*\n|^\d+: /gm, "");
}

type Counts = Readonly<Record<string, number>>;

/** Values of a metric by `kind`, summed over its other labels. */
async function figures(daemon: LabDaemon, name: string): Promise<Counts> {
  const counts: Record<string, number> = {};
  for (const line of await daemon.metrics(`${name}{`)) {
    const [, kind = ""] = /kind="([^"]+)"/.exec(line) ?? [];
    counts[kind] = (counts[kind] ?? 0) + Number(line.split(" ").at(-1));
  }
  return counts;
}

function grown(now: Counts, then: Counts): Counts {
  const differences = Object.entries(now).map(
    ([kind, count]) => [kind, count - (then[kind] ?? 0)] as const,
  );
  return Object.fromEntries(differences.filter(([, count]) => count !== 0));
}

interface Case {
  readonly name: string;
  readonly command: string;
  /** The reason why the case is skipped. */
  readonly skip?: string | false;
  /** Drift and writes, by kind. */
  readonly drift: Counts;
  readonly writes: Counts;
  /** Expected texts in the audit's first line: before and after. */
  readonly told: readonly [before: RegExp, after: RegExp];
}

const absent = /^absent$/;
const present = /^present$/;
const prerouting = { tool: "iptables", table: "nat", chain: "PREROUTING" } as const;

/** Found by the quick checks. The verification period is an hour. */
const quick: readonly Case[] = [
  {
    name: "an address is removed",
    command: `ip address del ${clusterIp}/32 dev kube-ipvs0`,
    drift: { address: 1 },
    writes: { "address-add": 1 },
    told: [present, absent],
  },
  {
    name: "an address is added",
    command: "ip address add 10.9.9.9/32 dev kube-ipvs0",
    drift: { address: 1 },
    writes: { "address-remove": 1 },
    told: [absent, present],
  },
  {
    name: "the link is deleted",
    command: "ip link del kube-ipvs0",
    drift: { link: 1 },
    writes: { "link-create": 1, "address-add": 3 },
    told: [/^3 addresses$/, absent],
  },
  {
    name: "an entry is deleted",
    command: changeEntry("del", "KUBE-CLUSTER-IP", `${clusterIp},tcp:80`),
    drift: { entry: 1 },
    writes: { "entry-add": 1 },
    told: [present, absent],
  },
  {
    name: "a jump is deleted",
    command: deleteRule(prerouting, 1),
    drift: { jump: 1 },
    writes: { "jump-insert": 1 },
    told: [/-j KUBE-SERVICES$/, absent],
  },
  {
    name: "a rule is deleted",
    command: deleteRule({ tool: "ip6tables", table: "nat", chain: "KUBE-POSTROUTING" }, 2),
    drift: { rule: 1 },
    writes: { "chain-write": 1 },
    told: [/./, absent],
  },
  {
    name: "a rule is added",
    command: insertAccept({ tool: "iptables", table: "filter", chain: "KUBE-FORWARD" }),
    drift: { rule: 1 },
    writes: { "chain-write": 1 },
    told: [absent, /^(?:-j ACCEPT|a rule of other software)$/],
  },
  {
    name: "a chain is deleted",
    command: deleteChain(
      { tool: "iptables", table: "nat", chain: "KUBE-LOAD-BALANCER" },
      "KUBE-SERVICES",
    ),
    drift: { chain: 1, rule: 1 },
    writes: { "chain-write": 2 },
    told: [/KUBE-LOAD-BALANCER$/, absent],
  },
  {
    name: "a set is destroyed",
    command: destroySet("KUBE-NODE-PORT-UDP"),
    drift: { set: 1 },
    writes: { "set-create": 1 },
    told: [/^bitmap:port/, absent],
  },
  {
    name: "a set is recreated with a timeout",
    command: `ipset create ANEW hash:ip,port timeout 86400 maxelem 65536; ipset add ANEW ${clusterIp},tcp:80; ipset swap ANEW KUBE-CLUSTER-IP; ipset destroy ANEW`,
    skip: unlessNftables("sets of nf_tables cannot be swapped"),
    drift: { set: 1 },
    writes: { "set-swap": 1 },
    told: [/^hash:ip,port IPv4 maxelem 65536$/, / options$/],
  },
];

/** Simulates the start of a firewall service, which flushes its tables and adds its own rules. */
const firewall =
  "*nat\n:PREROUTING ACCEPT\n:INPUT ACCEPT\n:OUTPUT ACCEPT\n:POSTROUTING ACCEPT\nCOMMIT\n*filter\n:INPUT ACCEPT\n:FORWARD ACCEPT\n:OUTPUT ACCEPT\n-A INPUT -s 192.0.2.7/32 -j DROP\nCOMMIT\n";
const allRules = {
  drift: { chain: 11, jump: 9 },
  writes: { "chain-write": 11, "jump-insert": 9 },
} as const;

/**
 * Found by the verification, because the kernel sends no notifications about IPVS, sysctls, and set changes that keep
 * the set's size.
 */
const verified: readonly Case[] = [
  {
    name: "a virtual server is deleted",
    command: `ipvsadm -D -t ${clusterIp}:80`,
    drift: { "virtual-server": 1 },
    writes: { "virtual-server-create": 1, "real-server-create": 2 },
    told: [/^rr, 2 real servers$/, absent],
  },
  {
    name: "a virtual server gets persistence",
    command: `ipvsadm -E -t ${clusterIp}:80 -s rr -p 300`,
    drift: { "virtual-server": 1 },
    writes: { "virtual-server-update": 1 },
    told: [/^rr$/, /^rr persistent 300s$/],
  },
  {
    name: "a scheduler is changed",
    command: `ipvsadm -E -t ${clusterIp}:80 -s lc`,
    drift: { scheduler: 1 },
    writes: { "virtual-server-update": 1 },
    told: [/^rr$/, /^lc$/],
  },
  {
    name: "a real server is deleted",
    command: `ipvsadm -d -t ${clusterIp}:80 -r 10.244.2.11:8080`,
    drift: { "real-server": 1 },
    writes: { "real-server-create": 1 },
    told: [/^weight 1$/, absent],
  },
  {
    name: "a real server is added",
    command: `ipvsadm -a -t ${clusterIp}:80 -r 10.9.9.9:8080 -m`,
    drift: { "real-server": 1 },
    writes: { "real-server-update": 1, "real-server-remove": 1 },
    told: [absent, /^weight 1$/],
  },
  {
    name: "all virtual servers are cleared",
    command: "ipvsadm -C",
    drift: { "virtual-server": serverCount },
    writes: { "virtual-server-create": serverCount, "real-server-create": 2 * serverCount },
    told: [/^rr, 2 real servers$/, absent],
  },
  {
    name: "an entry is replaced with another one",
    command: `${changeEntry("del", "KUBE-CLUSTER-IP", `${clusterIp},tcp:80`)}
      ${changeEntry("add", "KUBE-CLUSTER-IP", "10.9.9.9,tcp:80")}`,
    drift: { entry: 2 },
    writes: { "entry-add": 1, "entry-remove": 1 },
    told: [present, absent],
  },
  {
    name: "a sysctl is changed",
    command: `sysctl -qw ${sysctlPath}=0`,
    drift: { sysctl: 1 },
    writes: { "sysctl-write": 1 },
    told: [/^1$/, /^0$/],
  },
];

function audit(daemon: LabDaemon, from: number): readonly (typeof daemon.lines)[number][] {
  return daemon.lines.slice(from).filter(({ keys }) => /^drift-/.test(String(keys["reason"])));
}

/** Runs the command, waits for the repair, and returns the number of milliseconds. */
async function repaired(
  daemon: LabDaemon,
  { command, drift, writes, told }: Case,
  wanted: string,
): Promise<number> {
  const lineCount = daemon.lines.length;
  const changes = await figures(daemon, "kube_ipvs_kernel_changes_total");
  const drifts = await figures(daemon, "kube_ipvs_drift_total");
  shell(command);
  const elapsedMs = await eventually(
    async () => grown(await figures(daemon, "kube_ipvs_drift_total"), drifts),
    drift,
    patienceMs,
  );
  await daemon.settled();
  const now = await figures(daemon, "kube_ipvs_kernel_changes_total");
  assert.deepEqual(grown(now, changes), writes);
  assert.equal(state(), wanted);
  const [line] = audit(daemon, lineCount);
  assert.match(String(line?.keys["before"]), told[0]);
  assert.match(String(line?.keys["after"]), told[1]);
  assert.equal(line?.keys["action"], "repair");
  return elapsedMs;
}

describe("drift that checks between verifications find", () => {
  let daemon: LabDaemon;
  let wanted: string;
  before(async () => {
    daemon = await startLabDaemon([web, slice], {
      "kube-ipvs-verification-period": "1h",
      "kube-ipvs-rule-check-period": "1s",
    });
    wanted = state();
  });
  after(() => daemon.stop());

  for (const one of quick) {
    it(one.name, { skip: one.skip ?? false }, async (test) => {
      test.diagnostic(`${(await repaired(daemon, one, wanted)).toFixed(0)} ms`);
    });
  }

  for (const tool of ["iptables", "ip6tables"]) {
    const skip = unlessNftables("it does not change the tables of kube-ipvs");
    it(`${tool}-restore with a complete third-party rule set`, { skip }, async (test) => {
      const text = tool === "iptables" ? firewall : firewall.replaceAll(/-A .*\n/g, "");
      writeFileSync("/run/firewall", text);
      const one = {
        name: tool,
        command: `${tool}-restore < /run/firewall`,
        ...allRules,
        told: [/ rules$/, absent] as const,
      };
      test.diagnostic(`${(await repaired(daemon, one, wanted)).toFixed(0)} ms`);
      if (tool === "iptables") assert.match(shell("iptables -S INPUT"), /192\.0\.2\.7/);
    });
  }

  it("if a third party keeps removing an address, only the repair of this address is delayed", async () => {
    const drifts = async (): Promise<number> =>
      (await figures(daemon, "kube_ipvs_drift_total"))["address"] ?? 0;
    const take = async (address: string): Promise<void> => {
      const count = await drifts();
      shell(`ip address del ${address}/32 dev kube-ipvs0`);
      await eventually(drifts, count + 1, patienceMs);
      await daemon.settled();
    };
    // The address was removed once above, so four more removals make five.
    for (let time = 0; time < 4; time += 1) await take(clusterIp);
    const [conflict, ...others] = daemon.lines.filter(({ keys }) => keys["reason"] === "reverted");
    assert.deepEqual(
      [conflict?.keys["subject"], conflict?.keys["backOff"], others],
      [clusterIp, "30s", []],
    );
    assert.deepEqual(grown(await figures(daemon, "kube_ipvs_suppressed_repairs"), {}), {
      address: 1,
    });
    await take("203.0.113.5");
    const bound = shell("ip -o address show kube-ipvs0");
    assert.ok(bound.includes("203.0.113.5/"), bound);
    assert.ok(!bound.includes(`${clusterIp}/`), bound);
  });

  it("no drift caused an error", () => {
    assert.deepEqual(daemon.errors, []);
  });
});

describe("drift that the verification finds", () => {
  let daemon: LabDaemon;
  let wanted: string;
  before(async () => {
    daemon = await startLabDaemon([web, slice], { "kube-ipvs-verification-period": "1s" });
    wanted = state();
  });
  after(() => daemon.stop());

  for (const one of verified) {
    it(one.name, async (test) => {
      test.diagnostic(`${(await repaired(daemon, one, wanted)).toFixed(0)} ms`);
    });
  }

  it("a weight set by hand is kept and reported once, and other third-party changes are repaired", async () => {
    const byHand = "10.244.2.11:8080";
    const manualWeights = (): Promise<readonly string[]> =>
      daemon.metrics("kube_ipvs_manual_weights ");
    shell(`ipvsadm -e -t ${clusterIp}:80 -r ${byHand} -m -w 0`);
    await eventually(manualWeights, ["kube_ipvs_manual_weights 1"], patienceMs);
    const kept = state();
    assert.match(kept, /-a -t 10\.96\.0\.10:80 -r 10\.244\.2\.11:8080 -m -w 0/);
    const other = `${clusterIp}:80 -r 10.244.1.10:8080`;
    shell(`ipvsadm -d -t ${other}`);
    await eventually(() => Promise.resolve(state()), kept, patienceMs);
    const named = daemon.lines.filter(({ keys }) => keys["reason"] === "manual-weight");
    assert.deepEqual(
      named.map(({ keys }) => [keys["service"], keys["realServer"], keys["weight"]]),
      [["default/web", `TCP ${clusterIp}:80 -> ${byHand}`, 0]],
    );
    shell(`ipvsadm -e -t ${clusterIp}:80 -r ${byHand} -m -w 1`);
    await eventually(manualWeights, ["kube_ipvs_manual_weights 0"], patienceMs);
    assert.equal(state(), wanted);
  });

  it("no drift caused an error", () => {
    assert.deepEqual(daemon.errors, []);
  });
});

describe("with observeOnly", () => {
  it("all drift is reported, and nothing is changed", async () => {
    const daemon = await startLabDaemon([web, slice], {
      "kube-ipvs-verification-period": "1s",
      "kube-ipvs-rule-check-period": "1s",
      "kube-ipvs-observe-only": "true",
    });
    assert.deepEqual(grown(await figures(daemon, "kube_ipvs_pending_changes"), {}), {});
    shell(
      `ipvsadm -D -t ${clusterIp}:80; ip link del kube-ipvs0; ${deleteRule(prerouting, 1)}; ${flushSet("LOOP-BACK")}; sysctl -qw ${sysctlPath}=0`,
    );
    const found = state();
    const drift = { "virtual-server": 1, link: 1, jump: 1, entry: 1, sysctl: 1 };
    const told = async (): Promise<Counts> => figures(daemon, "kube_ipvs_drift_total");
    await eventually(told, drift, patienceMs);
    await pause(2_000);
    assert.deepEqual(await told(), drift);
    assert.deepEqual(grown(await figures(daemon, "kube_ipvs_pending_changes"), {}), {
      "virtual-server-create": 1,
      "real-server-create": 2,
      "link-create": 1,
      "address-add": 3,
      "jump-insert": 1,
      "entry-add": 1,
      "sysctl-write": 1,
    });
    assert.equal(state(), found);
    assert.deepEqual(daemon.errors, []);
    await daemon.stop();
  });
});
