/** Checks sysctls, the IPVS connection table and the IPVS estimator. */
import { counted } from "../../base/counted.ts";
import { linux, linuxOf } from "../../base/kernel-version.ts";
import { planSysctls, type SysctlSetting } from "../../plan/sysctls.ts";
import {
  type Check,
  check,
  fail,
  ipvsMode,
  type Judgement,
  ok,
  unknown,
  warn,
  worstVerdict,
} from "../check.ts";
import { type Host, isIpvsAvailable, type Node } from "../node.ts";

const forwardPath = "net/ipv4/ip_forward";
const localnetPath = "net/ipv4/conf/all/route_localnet";
const reusePath = "net/ipv4/vs/conn_reuse_mode";
const expirePath = "net/ipv4/vs/expire_nodest_conn";
/** Settings without which all traffic stops. Other settings affect only some connections. */
const essentialPaths: ReadonlySet<string> = new Set(["net/ipv4/vs/conntrack", forwardPath]);

/** Maximum cost of reading one counter: kernel commit 2232642ec3fb; see docs/reports/scale.md. */
const nanosecondsPerCounter = 38;
/** If a round of the estimator takes longer than this, the check warns. A round runs every 2 s. */
const longRoundMs = { timer: 50, threads: 500 } as const;

/** Number of connections above which a hash chain noticeably delays new connections. */
const longChain = 8;

export const ipvsChecks: readonly Check[] = [
  check({
    name: "network-namespaces",
    modes: ipvsMode,
    needs: ["ipvs"],
    why: "all namespaces share the IPVS connection table and the cost of IPVS statistics",
    read: (node) => node.otherNamespaces(),
    judge(others) {
      if (others.length === 0) return ok("no other network namespace has virtual servers");
      const words = others.map(
        ({ pid, command, virtualServerCount }) =>
          `${counted(virtualServerCount, "virtual server")} in the namespace of process ${pid} (${command})`,
      );
      const remedy =
        "check whether these virtual servers are needed there: nsenter -n -t PID ipvsadm -Ln";
      return warn(words.join("; "), remedy);
    },
  }),
  check({
    name: "sysctls",
    modes: ipvsMode,
    why: "masquerading, forwarding and session affinity depend on these sysctls",
    read: readSettings,
    judge(settings, host) {
      const judged = settings.map((setting) => judgeSetting(setting, host));
      const bad = judged.filter(({ verdict }) => verdict !== "ok");
      if (bad.length === 0) return ok(judged.map(({ evidence }) => evidence).join("; "));
      const remedies = new Set(bad.flatMap(({ remedy }) => remedy ?? []));
      return {
        verdict: worstVerdict(bad),
        evidence: bad.map(({ evidence }) => evidence).join("; "),
        ...(remedies.size === 0 ? {} : { remedy: [...remedies].join("; ") }),
      };
    },
  }),
  check({
    name: "forwarding",
    modes: ["iptables"],
    why: "if this sysctl is 0, the node does not forward packets to pods; kube-ipvs does not set it in iptables mode",
    read: ({ sysctl }) => sysctl(forwardPath),
    judge(value) {
      if (value === undefined) return unknown("the kernel has no net.ipv4.ip_forward");
      const evidence = `net.ipv4.ip_forward is ${value}`;
      return value === "1" ? ok(evidence) : fail(evidence, command(forwardPath, "1"));
    },
  }),
  check({
    name: "route-localnet",
    modes: ["iptables"],
    needs: ["installed"],
    why: "if this sysctl is 0, processes on the node cannot connect to node ports at 127.0.0.1",
    read: ({ sysctl }) => sysctl(localnetPath),
    judge(value, { iptablesLocalhostNodePorts }) {
      const evidence = `${nameOf(localnetPath)} is ${value}`;
      if (value === "1") return ok(evidence);
      if (!iptablesLocalhostNodePorts)
        return ok(`${evidence}; node ports are not served at 127.0.0.1`);
      return warn(
        evidence,
        `${command(localnetPath, "1")}, or set iptables.localhostNodePorts: false`,
      );
    },
  }),
  check({
    name: "conn-reuse-mode",
    modes: ipvsMode,
    needs: ["ipvs"],
    why: "this sysctl decides which real server a client reaches if the client soon reuses a source port",
    read: ({ sysctl }) => sysctl(reusePath),
    judge(value, host) {
      if (value === undefined) return unset(reusePath, host);
      const version = linuxOf(host.kernelRelease);
      if (version === undefined)
        return unknown(`${value}, but the kernel release is not a version number`);
      const evidence = `${value} on Linux ${host.kernelRelease}`;
      if (version < linux(5, 9)) {
        if (value === "0") return ok(evidence);
        return wrong(evidence, { path: reusePath, value: "0" }, host);
      }
      if (value !== "0") return ok(evidence);
      // Software for older kernels sets the value to 0. kube-ipvs does not change it back.
      return warn(
        `${evidence}: connections from reused ports still reach draining real servers`,
        command(reusePath, "1"),
      );
    },
  }),
  check({
    name: "expire-nodest-conn",
    modes: ipvsMode,
    needs: ["ipvs"],
    why: "if this sysctl is 0, packets to a removed real server are dropped until the client times out",
    read: ({ sysctl }) => ({ path: expirePath, value: "1", present: sysctl(expirePath) }),
    judge: judgeSetting,
  }),
  check({
    name: "estimator",
    modes: ipvsMode,
    needs: ["ipvs", "installed"],
    why: "the estimator's work grows with the number of servers and processors, and older kernels do all of it without a pause",
    read: async ({ sysctl, ipvs }) =>
      sysctl("net/ipv4/vs/run_estimation") === "0" ? "off" : await ipvs(),
    judge(figures, { cpuCount, kernelRelease }) {
      if (figures === "off")
        return ok(
          "disabled: the kernel does not count traffic, so the figures in ipvsadm --stats do not change",
        );
      const servers = figures.virtualServers + figures.realServers;
      const roundMs = (servers * cpuCount * nanosecondsPerCounter) / 1e6;
      const evidence =
        `${counted(servers, "server")} on ${counted(cpuCount, "processor")}: ` +
        `up to ${roundMs.toFixed(1)} ms of work every 2 s`;
      const version = linuxOf(kernelRelease) ?? linux(6, 2);
      const isInTimer = version < linux(6, 2);
      if (roundMs < longRoundMs[isInTimer ? "timer" : "threads"]) return ok(evidence);
      const effect = isInTimer ? ", during which packets on that processor wait" : "";
      return warn(`${evidence}${effect}`, estimatorRemedy(version));
    },
  }),
  check({
    name: "connection-table",
    modes: ipvsMode,
    needs: ["ipvs", "installed"],
    why: "long hash chains in the IPVS connection table slow down every new connection",
    read: async (node) => ({
      connections: (await node.ipvs()).connections,
      bits: await node.connTabBits(),
      isGrowing: node.sysctl("net/ipv4/vs/conn_lfactor") !== undefined,
    }),
    judge({ connections, bits, isGrowing }) {
      const evidence = `${counted(connections, "connection")} in 2^${bits} buckets`;
      if (isGrowing) return ok(`${evidence}; the table grows automatically to this size`);
      const perBucket = connections / 2 ** bits;
      if (perBucket <= longChain) return ok(evidence);
      const wanted = Math.min(20, Math.ceil(Math.log2(connections)));
      const remedy = `echo 'options ip_vs conn_tab_bits=${wanted}' > /etc/modprobe.d/ip_vs.conf, and reboot`;
      return warn(`${evidence}: ${perBucket.toFixed(0)} per hash chain`, remedy);
    },
  }),
];

interface PresentSetting extends SysctlSetting {
  readonly present: string | undefined;
}

/** Reads the sysctls that the daemon sets, except those with their own check. Without IPVS, skips IPVS sysctls. */
async function readSettings(node: Node): Promise<readonly PresentSetting[]> {
  const hasIpvs = await isIpvsAvailable(node);
  return planSysctls(node)
    .filter(
      ({ path }) =>
        path !== reusePath && path !== expirePath && (hasIpvs || !path.startsWith("net/ipv4/vs/")),
    )
    .map((setting) => ({ ...setting, present: node.sysctl(setting.path) }));
}

function judgeSetting({ present, ...setting }: PresentSetting, host: Host): Judgement {
  if (present === undefined) return unset(setting.path, host);
  return present === setting.value
    ? ok(`${nameOf(setting.path)} is ${present}`)
    : wrong(present, setting, host);
}

function unset(path: string, { isBeforeInstall }: Host): Judgement {
  const evidence = `the kernel has no ${nameOf(path)}`;
  return isBeforeInstall
    ? ok(`${evidence} yet: ip_vs adds it, and kube-ipvs sets it at startup`)
    : unknown(evidence, "load ip_vs; older kernels lack some settings");
}

/** Before installation, a wrong value is ok. Afterwards, it means that other software reverted the setting. */
function wrong(
  present: string,
  { path, value }: SysctlSetting,
  { isBeforeInstall }: Host,
): Judgement {
  const name = nameOf(path);
  if (isBeforeInstall) return ok(`kube-ipvs will change ${name} from ${present} to ${value}`);
  const verdict = essentialPaths.has(path) ? fail : warn;
  return verdict(`${name} is ${present}; kube-ipvs needs ${value}`, command(path, value));
}

function estimatorRemedy(version: number): string {
  if (version >= linux(6, 2))
    return "dedicate CPUs to the estimator: sysctl -w net.ipv4.vs.est_cpulist=LIST, or disable it: sysctl -w net.ipv4.vs.run_estimation=0";
  if (version >= linux(5, 16))
    return "sysctl -w net.ipv4.vs.run_estimation=0 (kube-ipvs then shows no traffic rates)";
  return "use Linux 5.16 or later, in which the estimator can be disabled";
}

function nameOf(path: string): string {
  return path.replaceAll("/", ".");
}

function command(path: string, value: string): string {
  return `sysctl -w ${nameOf(path)}=${value}`;
}
