/**
 * Tests kube-ipvs beside other software that writes rules on the node: which connections work, which ones the rules
 * break, and that the settings in docs/neighbors.md repair them. Each neighbor is started before and after kube-ipvs.
 * Syncs and `--cleanup` must not change its rules.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { counted } from "../../src/base/counted.ts";
import type { Finding } from "../../src/doctor/check.ts";
import type { DoctorReport } from "../../src/doctor/render.ts";
import { ask } from "../faults/ask.ts";
import { firewalldFlush } from "../neighbors/firewalls.ts";
import { type Neighbor, neighbors } from "../neighbors/neighbors.ts";
import { healthy, type Outcomes, objects, outcomesOf, pathNamed } from "../neighbors/traffic.ts";
import { client, guestNamed } from "../packet-paths/places.ts";
import { type RunningStations, startStations } from "../packet-paths/start-stations.ts";
import { ClusterNode, type NodeSettings } from "../support/cluster-node.ts";
import { leaveNetworkNamespace, shell } from "../support/netns/network-namespace.ts";
import { Program } from "../support/program.ts";
import { inOrder, labRules, listRules, rulesOfIptables } from "../support/rules-writer.ts";
import { explained } from "../support/run-kube-ipvs.ts";

const kubeIpvs = { ruleCheckPeriod: "1s", ignoreRunningKubeProxy: true };

const listOthers = `
  ipset save | sed 's/ initval .*//' | sort; ip rule; ip route show table all type unicast
  ip -o -4 address show | grep -v kube-ipvs0 | sed 's/^[0-9]*//'
  nft list table inet firewalld 2> /dev/null || true
  sysctl net.ipv4.conf.eth0.rp_filter
`;
const removeNeighbor = `
  nft delete table inet firewalld 2> /dev/null || true
  ip link del eth1 2> /dev/null || true; sysctl -qw net.ipv4.conf.eth0.rp_filter=0
  for priority in 512 512 1024 1536; do ip rule del priority $priority 2> /dev/null || true; done
  for set in $(ipset list -n | grep cali); do ipset destroy $set; done
  conntrack -F 2> /dev/null
`;
const emptyTables = `
  ${firewalldFlush}
  for program in iptables ip6tables; do
    for chain in INPUT FORWARD; do $program -P $chain ACCEPT; done
  done
`;
const hasNft =
  shell("nft add table ip tried 2> /dev/null && nft delete table ip tried && echo yes || true") !==
  "";

let network: RunningStations;
let proxy: ClusterNode;
/** Listings of nodes on which only the neighbor was started. */
const alone = new Map<string, string>();

const sources = { client: client.IPv4, pod: guestNamed("pod").addresses.IPv4, node: "node" };

async function start(): Promise<void> {
  await proxy.start();
  // The health check's port is opened after the first sync.
  const isOpen = async (): Promise<boolean> =>
    (await ask("http://127.0.0.1:30100/healthz").catch(() => undefined))?.status === 200;
  await proxy.until("the Service's health check answers", isOpen);
}

/** Waits until connections have these outcomes, except those that are the same on a node without other software. */
async function connectionsBecome(different: Outcomes): Promise<void> {
  const wanted = { ...healthy, ...different };
  let found: Outcomes = {};
  const isAsWanted = async (): Promise<boolean> => {
    found = await outcomesOf(network.stations);
    return Object.entries(wanted).every(([name, outcome]) => found[name] === outcome);
  };
  await proxy.until("connections", isAsWanted).catch(() => assert.deepEqual(found, wanted));
}

/**
 * Everything that neighbors write, without packet counters. Tables without rules may or may not exist. With `ignored`,
 * lines that match are removed.
 */
function list(ignored?: RegExp): string {
  const tables = ["iptables-save", "ip6tables-save"].flatMap((program) => {
    const saved = shell(`${program} | sed 's/ \\[[0-9]*:[0-9]*\\]$//'`);
    const lines = saved.split("\n").filter((line) => ignored?.test(line) !== true);
    const blocks = lines.join("\n").split(/^(?=\*)/m);
    const used = blocks.filter((block) => /^-A|^:\S+ (?!ACCEPT)/m.test(block));
    return used.map((block) => block.replaceAll(/^#.*\n/gm, "")).toSorted();
  });
  const others = shell(listOthers).split("\n");
  return [...tables, ...others.filter((line) => ignored?.test(line) !== true)].join("\n");
}

/** kube-ipvs's own rules, independent of their positions between other rules. */
function ownRules(): string {
  if (labRules !== undefined) return inOrder(shell(listRules));
  return rulesOfIptables().split("\n").toSorted().join("\n");
}

async function examine(): Promise<readonly Finding[]> {
  const args = ["doctor", "-o", "json", "--master", proxy.api.url, "--hostname-override=node-1"];
  const doctor = new Program(args);
  await doctor.ends();
  return (JSON.parse(doctor.output) as DoctorReport).checks;
}

async function apply(setting: string | NodeSettings): Promise<void> {
  if (typeof setting === "string") shell(setting);
  else proxy.configure({ ...setting, kubeIpvs });
}

before(async () => {
  network = await startStations();
  proxy = await ClusterNode.build(objects, { kubeIpvs });
});

after(async () => {
  await proxy.close();
  await network.stop();
  leaveNetworkNamespace();
});

function effectOf(breaks: Outcomes): string {
  const count = Object.keys(breaks).length;
  return count === 0 ? "breaks nothing" : `breaks ${counted(count, "path")}`;
}

function skipOf({ isNft }: Neighbor): string | false {
  return isNft === true && !hasNft ? "this kernel has no nf_tables" : false;
}

for (const neighbor of neighbors) {
  const { name, configuration = {}, writes, breaks, cause, setting, stillBreaks } = neighbor;
  describe(`${name}, started before kube-ipvs`, { skip: skipOf(neighbor) }, () => {
    before(async () => {
      shell(writes);
      alone.set(name, list());
      proxy.configure({ ...configuration, kubeIpvs });
      await start();
    });

    after(() => shell(emptyTables + removeNeighbor));

    it(effectOf(breaks), () => connectionsBecome(breaks));

    if (cause !== undefined)
      it("is named by `explain` and `doctor`", async () => {
        const { from, address, port } = pathNamed(cause.path);
        const [explanation] = explained("--from", sources[from], `${address}:${port}`);
        assert.match(explanation?.summary ?? "", cause.rule);
        const packets = (await examine()).find((one) => one.name === "packets");
        assert.notEqual(packets?.verdict, "ok");
        assert.match(packets?.evidence ?? "", cause.rule);
      });

    if (setting !== undefined)
      it("has the documented effect with the documented setting", async () => {
        await apply(setting);
        await connectionsBecome(stillBreaks ?? {});
      });

    it("keeps its rules during syncs and clean-up", async () => {
      const rules = list(/KUBE-/);
      if (setting === undefined) assert.equal(rules, alone.get(name));
      await proxy.stop();
      await proxy.cleanUp();
      assert.equal(list(), rules);
    });
  });
}

describe("started after kube-ipvs", () => {
  const isWithIptables = labRules === undefined;
  const restore = "iptables-restore /run/iptables; ip6tables-restore /run/ip6tables";
  let own = "";

  /** Some firewalls delete all rules when they start and when they are reloaded. */
  async function isRepaired(): Promise<void> {
    await proxy.until("kube-ipvs's rules are as before", () => ownRules() === own);
  }

  before(async () => {
    proxy.configure({ kubeIpvs });
    await start();
    own = ownRules();
    if (isWithIptables) shell("iptables-save > /run/iptables; ip6tables-save > /run/ip6tables");
  });

  after(() => proxy.stop());

  for (const neighbor of neighbors) {
    const { name, writes, breaks, breaksLater = breaks, reload } = neighbor;
    const again = reload === undefined ? "" : ", also after its reload";
    it(`${name} ${effectOf(breaksLater)}${again}`, {
      skip: skipOf(neighbor),
    }, async () => {
      try {
        shell(writes);
        await isRepaired();
        await connectionsBecome(breaksLater);
        if (reload !== undefined) {
          shell(reload);
          await isRepaired();
          await connectionsBecome(breaksLater);
        }
        assert.equal(list(/KUBE-/), alone.get(name));
      } finally {
        shell(isWithIptables ? restore : emptyTables);
        shell(removeNeighbor);
      }
    });
  }
});

describe("addresses that other software announces", () => {
  const [balancer, moved] = ["203.0.113.10", "192.168.10.100"] as const;
  const strict: NodeSettings = { ipvs: { strictARP: true }, kubeIpvs };

  async function answers(from: "client" | "pod", address: string, port = 80): Promise<string> {
    const probe = { protocol: "TCP", address, port, payloadBytes: 1, answerBytes: 1 } as const;
    shell("ip -n client neigh flush dev eth0");
    const outcome = await network.stations.get(from)?.probe({ ...probe, timeoutMs: 1_500 });
    return outcome?.kind === "answer" ? outcome.answer.backend : "nobody";
  }

  async function become(address: string, port: number, wanted: string): Promise<void> {
    const isAnswered = async (): Promise<boolean> =>
      (await answers("client", address, port)) === wanted;
    await proxy.until(`${wanted} answers at ${address}`, isAnswered);
  }

  before(() => {
    // The client is in the network of these addresses, so it sends ARP requests for them.
    for (const address of [balancer, moved]) shell(`ip -n client route add ${address}/32 dev eth0`);
  });

  after(() => {
    for (const address of [balancer, moved]) shell(`ip -n client route del ${address}/32 dev eth0`);
    shell("sysctl -qw net.ipv4.conf.all.arp_ignore=0 net.ipv4.conf.all.arp_announce=0");
  });

  it("MetalLB: without strictARP, a node answers ARP requests for all load-balancer IPs", async () => {
    proxy.configure({ kubeIpvs });
    await proxy.start();
    await become(balancer, 80, "local");
    await proxy.stop();
  });

  it("MetalLB: with strictARP, a node serves clients only if MetalLB answers ARP requests", async () => {
    proxy.configure(strict);
    await proxy.start();
    await become(balancer, 80, "nobody");
    assert.equal(await answers("pod", balancer), "local");
    // MetalLB answers ARP requests itself, and the client then knows the address of the node's link.
    const [, link = ""] = /link\/ether (\S+)/.exec(shell("ip link show eth0")) ?? [];
    shell(`ip -n client neigh replace ${balancer} lladdr ${link} nud permanent dev eth0`);
    await become(balancer, 80, "local");
    shell(`ip -n client neigh del ${balancer} dev eth0`);
  });

  it("kube-vip: with strictARP, a load-balancer IP is served where its link has it", async () => {
    shell(`ip address add ${balancer}/32 dev eth0`);
    await become(balancer, 80, "local");
    shell(`ip address del ${balancer}/32 dev eth0`);
    await become(balancer, 80, "nobody");
    assert.equal(await answers("pod", balancer), "local");
  });

  it("keepalived: node ports follow its address, and clean-up keeps its address and virtual server", async () => {
    const add = `ip address add ${moved}/32 dev eth0`;
    shell(`${add}; ipvsadm -A -t ${moved}:443 -s wlc`);
    await become(moved, 30_010, "local");
    shell(`ip address del ${moved}/32 dev eth0`);
    await become(moved, 30_010, "nobody");
    const hasNodePort = (): boolean => shell("ipvsadm -Sn").includes(`${moved}:30010`);
    await proxy.until("the node port at this address is removed", () => !hasNodePort());
    shell(add);
    await become(moved, 30_010, "local");
    await proxy.stop();
    await proxy.cleanUp();
    assert.equal(shell("ipvsadm -Sn"), `-A -t ${moved}:443 -s wlc\n`);
    assert.match(shell("ip -o address show dev eth0"), new RegExp(` ${moved}/32 `));
    shell(`ip address del ${moved}/32 dev eth0; ipvsadm -C`);
  });
});
