/** Other proxies, and what this process and node have left. Pure. */
import { fail, type Judgement, ok, unknown, warn } from "../check.ts";
import { judging, type NodeFacts } from "../facts.ts";

export function judgeProxies({ proxies, isBeforeInstall }: NodeFacts): Judgement {
  return judging(proxies, ({ otherProxy, isInstanceRunning, takenPorts }) => {
    if (otherProxy !== undefined) {
      const evidence = `kube-proxy is running: ${otherProxy}`;
      const remedy = "remove it from this node before kube-ipvs starts: docs/migrate.md";
      return isBeforeInstall ? warn(evidence, remedy) : fail(evidence, remedy);
    }
    if (isInstanceRunning) return ok("kube-ipvs runs, and no kube-proxy");
    if (takenPorts.length === 0) return ok("no proxy runs, and its ports are free");
    const ports = takenPorts.join(" and ");
    return fail(
      `port ${ports} is in use, and no kube-ipvs runs`,
      `find out who: ss -ltnp 'sport = :${takenPorts[0]}'`,
    );
  });
}

/** Watches, listeners and programs need some dozens; each health-check node port one more. */
const fewFiles = 1_024;
const nearlyAll = 0.9;

export function judgeFiles({ files }: NodeFacts): Judgement {
  return judging(files, ({ limit, open, max }) => {
    const evidence = `limit ${limit}; ${open} of ${max} are open on the node`;
    if (open >= max * nearlyAll) return fail(evidence, `sysctl -w fs.file-max=${max * 2}`);
    if (limit < fewFiles)
      return warn(evidence, "ulimit -n 1048576, or LimitNOFILE of the container runtime");
    return ok(evidence);
  });
}

export function judgeLock({ mounts }: NodeFacts): Judgement {
  return judging(mounts, ({ isContainer, isLockShared }) => {
    if (!isContainer) return ok("not in a container: /run/xtables.lock is the node's");
    if (isLockShared) return ok("/run/xtables.lock of the node is mounted");
    const remedy = "mount the node's /run/xtables.lock (hostPath, type FileOrCreate)";
    return warn("the node's /run/xtables.lock is not mounted into this container", remedy);
  });
}

const smallSkewMs = 5_000;
const largeSkewMs = 60_000;

export function judgeClock({ cluster }: NodeFacts): Judgement {
  if ("skipped" in cluster) return unknown(cluster.skipped);
  return judging(cluster.version, ({ aheadMs }) => {
    const evidence = `${Math.round(Math.abs(aheadMs) / 1_000)} s ${aheadMs < 0 ? "behind" : "ahead of"} the API server`;
    if (Math.abs(aheadMs) < smallSkewMs) return ok(evidence);
    const remedy = "synchronize the clocks: timedatectl, chronyc tracking";
    return Math.abs(aheadMs) >= largeSkewMs ? fail(evidence, remedy) : warn(evidence, remedy);
  });
}
