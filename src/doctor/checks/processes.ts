/** Checks for other proxies, and checks this process's limits and mounts. */
import { version } from "../../base/version.ts";
import { type Check, check, fail, kernelModes, ok, warn } from "../check.ts";

export const otherProxyCheck: Check = check({
  name: "other-proxy",
  why: "two proxies keep undoing each other's changes",
  read: (node) => node.proxies(),
  judge({ otherProxy, isInstanceRunning, takenPorts }, { isBeforeInstall }) {
    if (otherProxy !== undefined) {
      return (isBeforeInstall ? warn : fail)(
        `kube-proxy is running: ${otherProxy}`,
        "stop kube-proxy on this node, and remove its DaemonSet or service: docs/migrate.md",
      );
    }
    if (isInstanceRunning) return ok("kube-ipvs is running, and kube-proxy is not");
    if (takenPorts.length === 0) return ok("no proxy is running, and its ports are free");
    return fail(
      `${takenPorts.map((port) => `port ${port} is`).join(" and ")} in use, but kube-ipvs is not running`,
      `find the process: ss -ltnp 'sport = :${takenPorts[0]}'`,
    );
  },
});

const versionCheck = check({
  name: "version",
  needs: ["installed", "daemon"],
  why: "after an upgrade, the node runs the old program until kube-ipvs is restarted",
  read: async (node) => {
    const daemon = await node.daemon();
    if ("skipped" in daemon) throw new Error(daemon.skipped);
    return daemon.versions.program;
  },
  judge(running) {
    if (running === version) return ok(`kube-ipvs ${running} is running`);
    return warn(
      `kube-ipvs ${running} is running, but this program is ${version}`,
      "restart kube-ipvs on this node, or run doctor from the daemon's image",
    );
  },
});

/**
 * A lower limit may not suffice. Watches, listeners and programs need dozens of files, and each health-check node port
 * needs one.
 */
const fewFiles = 1_024;
const nearlyAll = 0.9;

export const processChecks: readonly Check[] = [
  versionCheck,
  check({
    name: "file-descriptors",
    why: "API watches, health-check node ports and iptables programs need file descriptors",
    read: (node) => node.files(),
    judge({ limit, open, max }) {
      const evidence = `${limit} files per process; ${open} of ${max} open on the node`;
      if (open >= max * nearlyAll) return fail(evidence, `sysctl -w fs.file-max=${max * 2}`);
      if (limit < fewFiles)
        return warn(evidence, "ulimit -n 1048576, or LimitNOFILE of the container runtime");
      return ok(evidence);
    },
  }),
  check({
    name: "iptables-lock",
    modes: kernelModes,
    why: "programs that do not share the lock overwrite each other's rules",
    read: (node) => node.mounts(),
    judge({ isContainer, isLockShared }) {
      if (!isContainer) return ok("not in a container: /run/xtables.lock is the node's");
      if (isLockShared) return ok("the node's /run/xtables.lock is mounted");
      return warn(
        "the node's /run/xtables.lock is not mounted into this container",
        "mount the node's /run/xtables.lock (hostPath, type FileOrCreate)",
      );
    },
  }),
];
