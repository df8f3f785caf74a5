/**
 * Tests every check of `kube-ipvs doctor` on a node that is broken in the way that the check detects. On the healthy
 * node, no check complains.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { release, tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import { version } from "../../src/base/version.ts";
import type { Config } from "../../src/config/config.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import type { Finding } from "../../src/doctor/check.ts";
import { checks } from "../../src/doctor/examine.ts";
import { examineNode } from "../../src/doctor/examine-node.ts";
import type { DoctorReport } from "../../src/doctor/render.ts";
import { ApiServer } from "../support/api-server/api-server.ts";
import { ClusterNode, type NodeSettings } from "../support/cluster-node.ts";
import { eventually } from "../support/lab-daemon.ts";
import { requireLabKernel, skippedOnHost } from "../support/machine-wide.ts";
import {
  enterNetworkNamespace,
  leaveNetworkNamespace,
  removeNetworkNamespace,
  shell,
} from "../support/netns/network-namespace.ts";
import { buildNodeNetwork, nodeAddress } from "../support/node-network.ts";
import {
  type ApiObject,
  endpoint,
  endpointSlice,
  node,
  service,
  servicePort,
  slicePort,
} from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { Program } from "../support/program.ts";
import { labRules, unlessIptables, unlessNftables } from "../support/rules-writer.ts";
import { program } from "../support/run-kube-ipvs.ts";

const tested = new Set<string>();

const objects: readonly ApiObject[] = [
  service({ ports: [servicePort()] }),
  endpointSlice({ endpoints: ["10.244.2.11"] }),
  service({ name: "dns", clusterIps: ["10.96.0.53"], ports: [servicePort({ protocol: "UDP" })] }),
  endpointSlice({
    service: "dns",
    endpoints: ["10.244.2.12"],
    ports: [slicePort({ protocol: "UDP" })],
  }),
  node({ name: "node-2", addresses: ["192.168.10.12"] }),
];
/** The daemon neither verifies nor repairs the kernel state. */
const passive: NodeSettings = {
  ipvs: { syncPeriod: "24h" },
  kubeIpvs: { verificationPeriod: "24h", ruleCheckPeriod: "0s" },
};
let proxy: ClusterNode;
/** An API server that is reachable through a Service of this node. */
let behind: ApiServer | undefined;
let impostor: ChildProcess | undefined;
let conntrackMax = "";

function configWith(flags: Readonly<Record<string, string>> = {}): Config {
  const all = {
    master: proxy.api.url,
    "hostname-override": "node-1",
    ...(labRules === undefined ? {} : { "kube-ipvs-rules": labRules }),
    ...flags,
  };
  const values = new Map(Object.entries(all).map(([name, value]) => [name, [value]] as const));
  return loadConfig(values, { readFile: () => "", hostname: () => "node-1" }).config;
}

/** How the node is examined. */
interface Examination {
  readonly flags?: Readonly<Record<string, string>>;
  readonly clock?: Clock;
  readonly isBeforeInstall?: boolean;
  /**
   * If given, the built program examines the node, and these words precede it. By default, this process examines the
   * node.
   */
  readonly command?: readonly string[];
}

async function complaintsOf(how: Examination = {}): Promise<readonly Finding[]> {
  const { flags = {}, clock = systemClock, isBeforeInstall = false } = how;
  const report =
    how.command === undefined
      ? await examineNode(configWith(flags), clock, isBeforeInstall)
      : await reportOf(how.command);
  return report.checks.filter(({ verdict }) => verdict !== "ok");
}

async function reportOf(command: readonly string[]): Promise<DoctorReport> {
  const doctor = new Program(
    ["doctor", "-o", "json", "--master", proxy.api.url, "--hostname-override=node-1"],
    command,
  );
  await doctor.ends();
  return JSON.parse(doctor.output) as DoctorReport;
}

function texts(complaints: readonly Finding[]): readonly string[] {
  return complaints.map(({ name, verdict }) => `${name} ${verdict}`);
}

/** Shell lines, or a function. */
type Action = string | (() => unknown);

interface Breakage extends Examination {
  readonly problem: string;
  readonly breaks?: Action;
  readonly mends?: Action;
  /** All checks that are not ok, as `name verdict`. The first is the one that is tested. */
  readonly complaints: readonly [string, ...string[]];
  /** Text in the tested check's evidence or remedy. */
  readonly says: RegExp;
  readonly skip?: string | false;
}

function itReports({ problem, complaints, says, skip = false, ...how }: Breakage): void {
  const [first] = complaints;
  tested.add(first.split(" ")[0] ?? "");
  it(`reports ${problem}: ${first}`, { skip }, async () => {
    await act(how.breaks);
    try {
      const found = await complaintsOf(how);
      const wanted = [...complaints].toSorted();
      assert.deepEqual(texts(found).toSorted(), wanted, JSON.stringify(found, undefined, 1));
      const {
        evidence = "",
        remedy = "",
        why = "",
      } = found.find((one) => first === `${one.name} ${one.verdict}`) ?? {};
      assert.match(`${evidence}; ${remedy}`, says);
      assert.notEqual(remedy, "", "no remedy");
      assert.notEqual(why, "", "no reason");
    } finally {
      await act(how.mends);
    }
  });
}

async function act(action?: Action): Promise<void> {
  if (typeof action === "string") shell(action);
  else await action?.();
}

function sysctl(name: string, wrong: string, right: string): Pick<Breakage, "breaks" | "mends"> {
  return { breaks: `sysctl -qw ${name}='${wrong}'`, mends: `sysctl -qw ${name}='${right}'` };
}

/** Runs shell lines in the kernel's first network namespace, which alone can change some settings. */
function outside(lines: string): string {
  leaveNetworkNamespace();
  try {
    return shell(lines).trim();
  } finally {
    enterNetworkNamespace("node");
  }
}

/** Sends about 2,900 datagrams, each from another port. Some ports are used twice. */
const manyDatagrams =
  "ip netns exec client bash -c 'for i in {1..3000}; do echo > /dev/udp/10.96.0.53/80; done'";

const backends = ["iptables-nft", "iptables-legacy"] as const;

/** The backend that contains kube-ipvs's rules. */
function inUse(): string | undefined {
  return backends.find((name) => shell(`${name}-save 2> /dev/null || true`).includes("KUBE-"));
}

/** Copies the built program with another version, without its cache of compiled code, and returns the copy's path. */
function olderProgram(folder: string): string {
  const [from, lib] = [join(program, "../lib"), join(folder, "lib")];
  mkdirSync(lib);
  for (const name of readdirSync(from)) {
    if (!name.endsWith(".cjs")) {
      if (name !== "compile-cache") symlinkSync(join(from, name), join(lib, name));
      continue;
    }
    const text = readFileSync(join(from, name), "utf8");
    writeFileSync(join(lib, name), text.replaceAll(`"${version}"`, '"0.0.9"'));
  }
  cpSync(program, join(folder, "kube-ipvs"));
  return join(folder, "kube-ipvs");
}

/** Reason to skip a case about missing modules. */
const skipModules: string | false =
  skippedOnHost("unloads modules") ||
  (!existsSync("/proc/modules") && "this kernel has no modules");
const modulesFolder = `/lib/modules/${release()}`;
const allOfIpvs = "$(grep -o '^\\(xt_ipvs\\|ip_vs_[a-z]*\\) ' /proc/modules) ip_vs";

function unload(names: string): void {
  requireLabKernel("unloads modules");
  shell(`for module in ${names}; do rmmod $module; done`);
}

/**
 * A kernel without these modules: they are neither loaded nor listed in modules.dep. `pattern` matches their files'
 * names.
 */
function withoutModules(names: string, pattern: string): Pick<Breakage, "breaks" | "mends"> {
  return {
    breaks() {
      unload(names);
      shell(`
        grep -v '/${pattern}\\.ko[^:]*:' ${modulesFolder}/modules.dep > /run/modules.dep
        cp ${modulesFolder}/modules.builtin /run
        mount -t tmpfs tmpfs ${modulesFolder}; mv /run/modules.* ${modulesFolder}`);
    },
    mends: `umount ${modulesFolder}; modprobe -a xt_set xt_ipvs ip_vs ip_vs_rr`,
  };
}

const skipIptablesMode =
  unlessIptables("iptables mode needs it") || unlessNftables("iptables mode needs iptables");

async function restartIn(mode: "ipvs" | "iptables"): Promise<void> {
  await proxy.stop();
  proxy.configure({ ...passive, mode });
  await proxy.start();
}

/** Waits until the daemon has processed an object. */
function served(address: string, isServed = true): Promise<number> {
  return eventually(() => shell("ipvsadm -Sn").includes(`${address}:`), isServed, patienceMs);
}

before(async () => {
  buildNodeNetwork([]);
  enterNetworkNamespace("node");
  proxy = await ClusterNode.build(objects, passive);
});

after(async () => {
  await proxy.close();
  leaveNetworkNamespace();
  for (const name of ["client", "node"]) removeNetworkNamespace(name);
});

describe("the doctor on a node with kube-ipvs", () => {
  let inClient: ChildProcess | undefined;
  let folder: string;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "doctor-"));
    await proxy.start();
    // A namespace is only visible through its processes.
    inClient = spawn("ip", ["netns", "exec", "client", "sleep", "600"]);
  });

  after(async () => {
    inClient?.kill();
    await proxy.stop();
    rmSync(folder, { recursive: true });
  });

  it("finds no problem if the node is healthy", async () => {
    assert.deepEqual(await complaintsOf(), []);
    assert.deepEqual(await complaintsOf({ isBeforeInstall: true }), []);
    assert.deepEqual(await complaintsOf({ command: ["env"] }), []);
  });

  itReports({
    problem: "a sysctl that drops packets to removed real servers",
    ...sysctl("net.ipv4.vs.expire_nodest_conn", "0", "1"),
    complaints: ["expire-nodest-conn warn"],
    says: /expire_nodest_conn is 0/,
  });
  itReports({
    problem: "conn_reuse_mode 0",
    ...sysctl("net.ipv4.vs.conn_reuse_mode", "0", "1"),
    complaints: ["conn-reuse-mode warn"],
    says: /conn_reuse_mode=1/,
  });
  itReports({
    problem: "disabled forwarding",
    ...sysctl("net.ipv4.ip_forward", "0", "1"),
    complaints: ["sysctls fail", "packets fail"],
    says: /ip_forward=1/,
  });
  itReports({
    problem: "disabled forwarding in iptables mode",
    ...sysctl("net.ipv4.ip_forward", "0", "1"),
    flags: { "proxy-mode": "iptables" },
    // The daemon runs in IPVS mode, so it has not set route_localnet.
    complaints: ["forwarding fail", "packets fail", "route-localnet warn"],
    says: /ip_forward is 0/,
    skip: skipIptablesMode,
  });
  itReports({
    problem: "source ports that overlap the node ports",
    ...sysctl("net.ipv4.ip_local_port_range", "1024 60999", "32768 60999"),
    complaints: ["local-ports warn"],
    says: /ip_local_reserved_ports=30000-32767/,
  });
  itReports({
    problem: "a chain of kube-proxy's iptables mode",
    breaks: "iptables -t nat -N KUBE-SVC-ABCDEFGHIJKLMNOP",
    mends: "iptables -t nat -X KUBE-SVC-ABCDEFGHIJKLMNOP",
    complaints: ["leftovers warn"],
    says: /1 chain behind in/,
    skip: unlessIptables("there are no rules of iptables mode"),
  });
  itReports({
    problem: "a rule that drops packets to a Service",
    breaks: "iptables -I INPUT -p tcp --dport 80 -j DROP",
    mends: "iptables -D INPUT -p tcp --dport 80 -j DROP",
    complaints: ["packets fail"],
    says: /default\/web 10\.96\.0\.10:80 from .* are dropped by (?:ip )?filter INPUT: .*drop/i,
    skip: unlessIptables("the rule is one of iptables"),
  });
  itReports({
    problem: "a cluster IP on another link",
    breaks: "ip link add probe0 type dummy; ip address add 10.96.0.10/32 dev probe0",
    mends: "ip link del probe0",
    complaints: ["vip-collisions fail"],
    says: /10\.96\.0\.10 is an address of this node/,
  });
  itReports({
    problem: "node-local DNS on a cluster IP",
    breaks: "ip link add nodelocaldns type dummy; ip address add 10.96.0.53/32 dev nodelocaldns",
    mends: "ip link del nodelocaldns",
    complaints: ["vip-collisions warn"],
    says: /node-local DNS listens at 10\.96\.0\.53 on link nodelocaldns, .*unboundAddresses: \[10\.96\.0\.53\]/,
  });
  const skipTunnels = skippedOnHost("loads modules");
  itReports({
    problem: "a tunnel over a link with a smaller MTU",
    breaks: `
      ip link add flannel.1 type vxlan id 1 dev eth0 dstport 8472; ip link set flannel.1 up
      ip link set eth0 mtu 1400`,
    mends: "ip link set eth0 mtu 1500; ip link del flannel.1",
    complaints: ["tunnel-mtu warn"],
    says: /flannel\.1 \(vxlan\) have up to 1500 bytes .* eth0 carries at most 1400; ip link set flannel\.1 mtu 1350/,
    skip: skipTunnels,
  });
  itReports({
    problem: "a tunnel whose link is selected by routes",
    breaks: `
      ip link add probe0 type ipip local ${nodeAddress} remote 192.168.10.12
      ip link set probe0 mtu 1490 up`,
    mends: "ip link del probe0",
    complaints: ["tunnel-mtu warn"],
    says: /probe0 \(ipip\) have up to 1510 bytes .* eth0 carries at most 1500/,
    skip: skipTunnels,
  });
  itReports({
    problem: "a missing link for tunnel forwarding",
    flags: {
      "kube-ipvs-tunnel-forwarding": "true",
      "kube-ipvs-port-range-marks": "0x3fff0000",
    },
    breaks: `
      sysctl -qw net.ipv4.vs.sloppy_tcp=1 net.ipv4.vs.sloppy_sctp=1
      ipset create KUBE-IPVS-NODES hash:ip`,
    mends: `
      sysctl -qw net.ipv4.vs.sloppy_tcp=0 net.ipv4.vs.sloppy_sctp=0
      ipset destroy KUBE-IPVS-NODES`,
    complaints: ["tunnel-forwarding fail"],
    says: /no link kube-ipvs-ipip; run modprobe -a ipip ip6_tunnel/,
    skip: unlessNftables("the set is one of ipset"),
  });
  itReports({
    problem: "virtual servers in another network namespace",
    breaks: "ip netns exec client ipvsadm -A -t 192.0.2.1:80",
    mends: "ip netns exec client ipvsadm -C",
    complaints: ["network-namespaces warn"],
    says: /1 virtual server in the namespace of process \d+ \(sleep\)/,
  });
  itReports({
    problem: "a full ipset",
    breaks:
      "ipset create KUBE-FULL hash:ip maxelem 2; ipset add KUBE-FULL 192.0.2.1; ipset add KUBE-FULL 192.0.2.2",
    mends: "ipset destroy KUBE-FULL",
    complaints: ["ipset-limits fail"],
    says: /KUBE-FULL has 2 of 2 entries/,
    skip: unlessNftables("sets of nf_tables have no limit"),
  });
  itReports({
    problem: "a process named kube-proxy",
    breaks: () => {
      impostor = spawn("sleep", ["60"], { argv0: "kube-proxy" });
    },
    mends: () => impostor?.kill(),
    complaints: ["other-proxy fail"],
    says: /kube-proxy is running: process \d+/,
  });
  itReports({
    problem: "a full conntrack table",
    breaks: () => {
      shell(manyDatagrams);
      // The doctor's own connections still fit.
      const max = Number(shell("sysctl -n net.netfilter.nf_conntrack_count")) + 60;
      conntrackMax = outside(
        `sysctl -n net.netfilter.nf_conntrack_max; sysctl -qw net.netfilter.nf_conntrack_max=${max}`,
      );
    },
    mends: () => {
      outside(`sysctl -qw net.netfilter.nf_conntrack_max=${conntrackMax}`);
      shell("conntrack -F 2> /dev/null");
    },
    complaints: ["conntrack fail"],
    says: /\d+ of \d+ entries; raise conntrack\.maxPerCore/,
    skip: skippedOnHost("sets kernel-wide conntrack limits"),
  });

  const skipBackends = unlessNftables("neither backend has rules of kube-ipvs");
  it("reports a warning for iptables-backends if both backends have rules", {
    skip: skipBackends,
  }, async (test) => {
    const other = backends.find((name) => name !== inUse());
    const add = `${other} -t filter -A INPUT -s 192.0.2.9 -j ACCEPT`;
    // The lab's default kernel does not support nf_tables, but the kernel of `make test-kernels` does.
    if (other === undefined || shell(`${add} 2> /dev/null && echo yes || true`) !== "yes\n") {
      test.skip("this kernel has one backend only");
      return;
    }
    try {
      assert.deepEqual(texts(await complaintsOf()), ["iptables-backends warn"]);
    } finally {
      shell(add.replace(" -A ", " -D "));
    }
  });

  describe("in a process with fewer rights", () => {
    itReports({
      problem: "a process without NET_RAW",
      command: ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"],
      // iptables-legacy needs a raw socket.
      complaints: ["capabilities fail", ...(labRules === undefined ? ["packets unknown"] : [])],
      says: /missing: NET_RAW; .*capabilities\.add: \[NET_RAW\]/,
    });
    itReports({
      problem: "a low limit on open files",
      command: ["prlimit", "--nofile=512:512"],
      complaints: ["file-descriptors warn"],
      says: /512 files per process/,
    });
    itReports({
      problem: "a container without the node's lock file",
      command: ["unshare", "--mount", "sh", "-c", 'umount -l /run && exec "$@"', "sh"],
      complaints: ["iptables-lock warn"],
      says: /xtables\.lock is not mounted/,
    });
    itReports({
      problem: "an old kernel",
      command: ["setarch", process.arch === "x64" ? "x86_64" : "aarch64", "--uname-2.6"],
      complaints: ["kernel warn", "conn-reuse-mode warn"],
      skip: skipModules,
      says: /use Linux 5\.9 or newer/,
    });
  });

  describe("with a cluster", () => {
    itReports({
      problem: "a wrong clock",
      clock: { ...systemClock, nowMs: () => systemClock.nowMs() + 90_000 },
      complaints: ["clock fail"],
      says: /90 s ahead of the API server/,
    });
    itReports({
      problem: "an API server that does not answer",
      // Nothing listens on this port.
      flags: { master: "http://127.0.0.1:9" },
      complaints: [
        ...(["api-server fail"] as const),
        ...["strict-arp", "clock", "api-rights", "dead-nodes"].map((name) => `${name} unknown`),
      ],
      says: /ECONNREFUSED/,
    });
    itReports({
      problem: "an account that may not read Services",
      breaks: () => {
        proxy.api.authorize = (_, { resource }) => resource !== "services";
      },
      mends: () => {
        proxy.api.authorize = undefined;
      },
      complaints: ["api-rights fail", "strict-arp unknown"],
      says: /denied: services \(list, watch\).*system:node-proxier/,
    });
    itReports({
      problem: "MetalLB without strict ARP",
      breaks: () =>
        proxy.api.apply(
          service({ metadata: { annotations: { "metallb.io/ip-allocated-from-pool": "lan" } } }),
        ),
      mends: () => proxy.api.apply(service({})),
      complaints: ["strict-arp warn"],
      says: /default\/web got its address from MetalLB.*ipvs\.strictARP: true/,
    });
    itReports({
      problem: "ready endpoints on a Node that is not ready",
      breaks: () => {
        const conditions = [{ type: "Ready", status: "Unknown" }];
        const dead = node({ name: "node-2", addresses: ["192.168.10.12"] });
        proxy.api.apply(
          { ...dead, status: { ...(dead["status"] as object), conditions } },
          endpointSlice({ endpoints: [endpoint("10.244.2.11", { nodeName: "node-2" })] }),
        );
      },
      mends: () => proxy.api.apply(...objects),
      complaints: ["dead-nodes warn"],
      says: /Node node-2 is not ready, but has 1 ready endpoint \(default\/web\); repair the Node/,
    });
    const other = service({
      name: "other",
      clusterIps: ["10.96.0.11"],
      spec: { externalIPs: ["203.0.113.5"] },
    });
    itReports({
      problem: "an external IP that another Service owns",
      breaks: async () => {
        proxy.api.apply(service({ spec: { externalIPs: ["203.0.113.5"] } }));
        await served("203.0.113.5");
        proxy.api.apply(other);
        await served("10.96.0.11");
      },
      mends: async () => {
        proxy.api.delete(other);
        proxy.api.apply(...objects);
        await served("203.0.113.5", false);
      },
      complaints: ["conflicts warn"],
      says: /default\/other/,
    });

    itReports({
      problem: "an API server behind a Service of this node",
      breaks: async () => {
        behind = await ApiServer.start({ host: nodeAddress, port: 6443 });
        proxy.api.apply(
          service({
            name: "kubernetes",
            clusterIps: ["10.96.0.1"],
            ports: [servicePort({ port: 443 })],
          }),
          endpointSlice({
            service: "kubernetes",
            endpoints: [nodeAddress],
            ports: [slicePort({ port: 6443 })],
          }),
        );
        await served("10.96.0.1");
      },
      mends: () => behind?.stop(),
      flags: { master: "http://10.96.0.1:443" },
      complaints: ["api-server warn"],
      says: /this node itself serves 10\.96\.0\.1, so .* after a reboot; set --kubeconfig or --master/,
    });

    itReports({
      problem: "a daemon of an older version",
      breaks: async () => {
        await proxy.stop();
        await proxy.start({}, olderProgram(folder));
      },
      mends: async () => {
        await proxy.stop();
        await proxy.start();
      },
      complaints: ["version warn"],
      says: /kube-ipvs 0\.0\.9 is running, but this program is .*restart kube-ipvs/,
    });
  });

  // Afterwards, the daemon removes all chains of iptables mode.
  itReports({
    problem: "loopback node ports that the kernel does not route",
    breaks: async () => {
      await restartIn("iptables");
      const path = "/proc/sys/net/ipv4/conf/all/route_localnet";
      await eventually(() => readFileSync(path, "utf8"), "1\n", patienceMs);
      writeFileSync(path, "0");
    },
    mends: () => restartIn("ipvs"),
    flags: { "proxy-mode": "iptables" },
    complaints: ["route-localnet warn"],
    says: /route_localnet is 0; sysctl -w net\.ipv4\.conf\.all\.route_localnet=1/,
    skip: skipIptablesMode,
  });
});

describe("the doctor on a node without kube-ipvs", () => {
  before(async () => {
    await proxy.cleanUp();
  });

  it("finds no problem if the node is healthy", async () => {
    assert.deepEqual(await complaintsOf({ isBeforeInstall: true }), []);
  });

  itReports({
    problem: "a kernel without IPVS",
    ...withoutModules(allOfIpvs, "ip_vs[a-z_]*"),
    isBeforeInstall: true,
    complaints: ["ipvs fail"],
    says: /the kernel \S+ has no ip_vs; install the kernel's extra modules/,
    skip: skipModules,
  });
  itReports({
    problem: "a kernel without the scheduler",
    ...withoutModules("ip_vs_rr", "ip_vs_rr"),
    isBeforeInstall: true,
    complaints: ["scheduler fail"],
    says: /modprobe ip_vs_rr/,
    skip: skipModules,
  });
  itReports({
    problem: "a kernel without a module",
    ...withoutModules("xt_set", "xt_set"),
    isBeforeInstall: true,
    complaints: ["modules fail"],
    says: /the kernel has no xt_set/,
    skip: skipModules || unlessNftables("xt_set is not needed"),
  });
  itReports({
    problem: "a modules folder that is not mounted",
    breaks() {
      unload("xt_set");
      shell("mount -t tmpfs tmpfs /lib/modules");
    },
    mends: "umount /lib/modules; modprobe xt_set",
    isBeforeInstall: true,
    complaints: ["modules-folder warn", "modules unknown"],
    says: /mount the node's \/lib\/modules/,
    skip: skipModules || unlessNftables("xt_set is not needed"),
  });
  itReports({
    problem: "long chains in the connection table",
    breaks: async () => {
      unload(allOfIpvs);
      shell("modprobe ip_vs conn_tab_bits=8");
      await proxy.start();
      shell(manyDatagrams);
    },
    mends: async () => {
      await proxy.stop();
      await proxy.cleanUp();
    },
    complaints: ["connection-table warn"],
    says: /connections in 2\^8 buckets: \d+ per hash chain; .*conn_tab_bits=12/,
    skip: skipModules,
  });
});

it("every check is tested on a broken node", () => {
  const missing = checks.map(({ name }) => name).filter((name) => !tested.has(name));
  assert.deepEqual(missing, ["estimator", "iptables-backends", "rp-filter"]);
});
