/** Settings of IPVS, its tables and its statistics. Pure. */

import { counted } from "../../base/counted.ts";
import { linux, linuxOf } from "../../base/kernel-version.ts";
import { planSysctls, type SysctlSetting } from "../../plan/sysctls.ts";
import { fail, type Judgement, ok, unknown, warn, worstVerdict } from "../check.ts";
import { isIpvsAvailable, judging, type NodeFacts } from "../facts.ts";

const reusePath = "net/ipv4/vs/conn_reuse_mode";
const expirePath = "net/ipv4/vs/expire_nodest_conn";
const estimationPath = "net/ipv4/vs/run_estimation";
/** Those without which traffic stops; the others cost single connections. */
const essentialPaths: ReadonlySet<string> = new Set([
  "net/ipv4/vs/conntrack",
  "net/ipv4/ip_forward",
]);

export function judgeConnReuse(facts: NodeFacts): Judgement {
  const value = facts.sysctls.get(reusePath);
  if (value === undefined) return unset(facts, reusePath);
  const version = linuxOf(facts.kernelRelease);
  if (version === undefined) return unknown(`${value}, on a kernel without a version number`);
  const evidence = `${value} on Linux ${facts.kernelRelease}`;
  if (version < linux(5, 9)) {
    if (value === "0") return ok(evidence);
    return wrong(facts, evidence, { path: reusePath, value: "0" });
  }
  if (value !== "0") return ok(evidence);
  // Nobody sets it back: what set it to 0 was made for older kernels.
  return warn(`${evidence}: reused ports go on to draining real servers`, command(reusePath, "1"));
}

export function judgeExpireNoDestination(facts: NodeFacts): Judgement {
  return judgeSetting(facts, { path: expirePath, value: "1" });
}

/** All the other settings that the daemon makes; without IPVS those that do not belong to it. */
export function judgeSysctls(facts: NodeFacts): Judgement {
  const { isStrictArp, kernelRelease } = facts;
  const hasIpvs = isIpvsAvailable(facts);
  const settings = planSysctls({ isStrictArp, kernelRelease }).filter(
    ({ path }) =>
      path !== reusePath && path !== expirePath && (hasIpvs || !path.startsWith("net/ipv4/vs/")),
  );
  const judged = settings.map((setting) => judgeSetting(facts, setting));
  const bad = judged.filter(({ verdict }) => verdict !== "ok");
  if (bad.length === 0) return ok(judged.map(({ evidence }) => evidence).join("; "));
  const remedies = [...new Set(bad.flatMap(({ remedy }) => remedy ?? []))];
  return {
    verdict: worstVerdict(bad),
    evidence: bad.map(({ evidence }) => evidence).join("; "),
    ...(remedies.length === 0 ? {} : { remedy: remedies.join("; ") }),
  };
}

function judgeSetting(facts: NodeFacts, setting: SysctlSetting): Judgement {
  const { path, value } = setting;
  const present = facts.sysctls.get(path);
  if (present === undefined) return unset(facts, path);
  const evidence = `${nameOf(path)} is ${present}`;
  return present === value ? ok(evidence) : wrong(facts, evidence, setting);
}

function unset({ isBeforeInstall }: NodeFacts, path: string): Judgement {
  const evidence = `the kernel shows no ${nameOf(path)}`;
  return isBeforeInstall
    ? ok(`${evidence} yet: it comes with ip_vs and is set when kube-ipvs starts`)
    : unknown(evidence, "load ip_vs; older kernels do not have every setting");
}

/** Before anything is installed nobody has set it; afterwards someone set it back. */
function wrong(facts: NodeFacts, evidence: string, { path, value }: SysctlSetting): Judgement {
  if (facts.isBeforeInstall) return ok(`${evidence}, kube-ipvs sets ${value} when it starts`);
  const judge = essentialPaths.has(path) ? fail : warn;
  return judge(`${evidence}, kube-ipvs needs ${value}`, command(path, value));
}

export function judgeOtherNamespaces({ otherNamespaces }: NodeFacts): Judgement {
  return judging(otherNamespaces, (others) => {
    if (others.length === 0) return ok("no other network namespace has virtual servers");
    const words = others.map(
      ({ pid, command, virtualServerCount }) =>
        `${counted(virtualServerCount, "virtual server")} in the namespace of process ${pid} (${command})`,
    );
    const remedy = "check that they are wanted there: ipvsadm -Ln in `nsenter -n -t PID`";
    return warn(words.join("; "), remedy);
  });
}

/** What reading one counter costs at most: kernel commit 2232642ec3fb, see docs/reports/scale.md. */
const nanosecondsPerCounter = 38;
/** Of the 2 s between two rounds. */
const longRoundMs = { timer: 50, threads: 500 } as const;

export function judgeEstimator(facts: NodeFacts): Judgement {
  if (facts.sysctls.get(estimationPath) === "0") {
    return ok("switched off: the kernel counts no traffic, ipvsadm --stats stands still");
  }
  return judging(facts.ipvs, ({ virtualServers, realServers }) => {
    const servers = virtualServers + realServers;
    const roundMs = (servers * facts.cpuCount * nanosecondsPerCounter) / 1e6;
    const evidence =
      `${counted(servers, "server")} on ${counted(facts.cpuCount, "processor")}: ` +
      `up to ${roundMs.toFixed(1)} ms of work every 2 s`;
    const version = linuxOf(facts.kernelRelease) ?? linux(6, 2);
    const isInTimer = version < linux(6, 2);
    if (roundMs < longRoundMs[isInTimer ? "timer" : "threads"]) return ok(evidence);
    const words = isInTimer ? `${evidence}, during which packets of that processor wait` : evidence;
    return warn(words, estimatorRemedy(version));
  });
}

function estimatorRemedy(version: number): string {
  if (version >= linux(6, 2)) {
    return "give it processors of its own: sysctl -w net.ipv4.vs.est_cpulist=LIST, or switch it off: sysctl -w net.ipv4.vs.run_estimation=0";
  }
  if (version >= linux(5, 16))
    return "sysctl -w net.ipv4.vs.run_estimation=0 (traffic figures are lost)";
  return "use Linux 5.16 or newer, where it can be switched off";
}

/** Longer chains than this are felt by new connections. */
const longChain = 8;

export function judgeConnectionTable(facts: NodeFacts): Judgement {
  return judging(facts.ipvs, ({ connections }) =>
    judging(facts.connTabBits, (bits) => {
      const perBucket = connections / 2 ** bits;
      const evidence = `${counted(connections, "connection")} in 2^${bits} buckets`;
      if (facts.sysctls.has("net/ipv4/vs/conn_lfactor"))
        return ok(`${evidence} at most: it grows by itself`);
      if (perBucket <= longChain) return ok(evidence);
      const wanted = Math.min(20, Math.ceil(Math.log2(connections)));
      const remedy = `echo 'options ip_vs conn_tab_bits=${wanted}' > /etc/modprobe.d/ip_vs.conf, and reboot`;
      return warn(`${evidence}: ${perBucket.toFixed(0)} in a chain`, remedy);
    }),
  );
}

function nameOf(path: string): string {
  return path.replaceAll("/", ".");
}

function command(path: string, value: string): string {
  return `sysctl -w ${nameOf(path)}=${value}`;
}
