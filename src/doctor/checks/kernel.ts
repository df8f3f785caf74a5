/** Checks the kernel, its modules, and this process's capabilities. */
import { linux, linuxOf } from "../../base/kernel-version.ts";
import { type Check, check, fail, ipvsMode, kernelModes, ok, unknown, warn } from "../check.ts";
import { ipvsStateOf, type ModuleState } from "../node.ts";

interface KernelFault {
  /** The first version with the bug. Undefined if every earlier version has it. */
  readonly from?: number;
  /** The first version without the bug. */
  readonly before: number;
  readonly what: string;
}

/** Known IPVS bugs that affect a proxy, by kernel version. */
const faults: readonly KernelFault[] = [
  {
    before: linux(4, 18),
    what: "before 4.18, session affinity keeps clients on a draining real server",
  },
  {
    from: linux(4, 1),
    before: linux(5, 9),
    what: "before 5.9, a client that reuses its port within a minute may reach a draining real server",
  },
  { before: linux(4, 19), what: "kube-ipvs supports 4.19 and newer" },
];

/** How to install a kernel's modules, by the release name that its distribution uses. `RELEASE` is the full name. */
const modulePackages: readonly (readonly [release: RegExp, remedy: string])[] = [
  // Enterprise Linux 10 has the modules of ipset and iptables only in kernel-modules-extra.
  [/\.el\d/, "dnf install kernel-modules-RELEASE kernel-modules-extra-RELEASE"],
  [/-(?:amd64|arm64)$/, "apt install --reinstall linux-image-RELEASE, or boot an installed kernel"],
  [
    /-kvm$/,
    "apt install linux-image-generic and reboot, because Ubuntu's kvm kernels have no IPVS",
  ],
  [/^[\d.]+-\d+-[a-z]/, "apt install linux-modules-RELEASE linux-modules-extra-RELEASE"],
  [
    /-(?:talos|flatcar)/,
    "use a version of the operating system whose image contains them, because modules cannot be added",
  ],
  [/^/, "install the kernel's extra modules for RELEASE, or use a kernel that has them"],
];

function modulesRemedy(release: string): string {
  const found = modulePackages.find(([pattern]) => pattern.test(release));
  return found === undefined ? "" : found[1].replaceAll("RELEASE", release);
}

export const kernelChecks: readonly Check[] = [
  check({
    // The checks that need IPVS are skipped if it is not available.
    name: "ipvs",
    modes: ipvsMode,
    why: "without IPVS, no Service can be served in IPVS mode",
    read: ipvsStateOf,
    judge(state, { kernelRelease, isBeforeInstall }) {
      switch (state) {
        case "available":
          return ok("IPVS available: yes");
        case "loadable":
          return ok("IPVS available: yes, ip_vs will be loaded when kube-ipvs starts");
        case "missing":
          return fail(
            `IPVS available: no, the kernel ${kernelRelease} has no ip_vs`,
            `${modulesRemedy(kernelRelease)}, or set mode: iptables`,
          );
        case "unknown": {
          const evidence =
            "IPVS available: no, ip_vs is not loaded and /lib/modules is not visible";
          const remedy = "run modprobe ip_vs on the node, or mount the node's /lib/modules";
          return isBeforeInstall ? unknown(evidence, remedy) : fail(evidence, remedy);
        }
      }
    },
  }),
  check({
    name: "capabilities",
    modes: kernelModes,
    why: "without NET_ADMIN, nothing in the kernel can be read or changed",
    read: (node) => node.missingCapabilities(),
    judge(missing) {
      if (missing.length === 0) return ok("NET_ADMIN and NET_RAW are available");
      const names = missing.join(", ");
      return fail(
        `missing: ${names}`,
        `run as root; a container also needs securityContext.capabilities.add: [${names}]`,
      );
    },
  }),
  check({
    name: "kernel",
    modes: ipvsMode,
    why: "some kernels have IPVS bugs that no proxy can work around",
    read: ({ kernelRelease }) => kernelRelease,
    judge(release) {
      const version = linuxOf(release);
      if (version === undefined) return unknown(`release "${release}" is not a version number`);
      const present = faults.filter(({ from = 0, before }) => version >= from && version < before);
      if (present.length === 0) return ok(`Linux ${release}: no known IPVS bugs`);
      const words = present.map(({ what }) => what).join("; ");
      return warn(`Linux ${release}: ${words}`, "use Linux 5.9 or newer");
    },
  }),
  check({
    name: "modules",
    modes: kernelModes,
    why: "virtual servers, ipsets, rules and kube-ipvs0 need kernel modules",
    read: (node) => node.modules(),
    judge(needed, { kernelRelease, mode }) {
      // ip_vs has its own check.
      const all = needed.filter(({ name }) => name !== "ip_vs");
      const named = (wanted: ModuleState): readonly string[] =>
        all.filter(({ state }) => state === wanted).map(({ name }) => name);
      const missing = named("missing");
      if (missing.length > 0) {
        const isOfIptables = mode === "ipvs" && missing.some((name) => /^(?:ip|xt)_/.test(name));
        const other = isOfIptables ? ", or set kubeIpvs.rules: nftables" : "";
        const remedy = `${modulesRemedy(kernelRelease)}${other}`;
        return fail(`the kernel has no ${missing.join(", ")}`, remedy);
      }
      const unsure = named("unknown");
      if (unsure.length > 0) {
        const remedy = "run doctor on the node, or mount the node's /lib/modules";
        return unknown(`cannot determine whether the kernel has ${unsure.join(", ")}`, remedy);
      }
      const loadable = named("loadable");
      const count = `${all.length - loadable.length} of ${all.length} are loaded or built in`;
      return ok(loadable.length === 0 ? count : `${count}, loadable: ${loadable.join(", ")}`);
    },
  }),
  check({
    name: "modules-folder",
    modes: kernelModes,
    why: "modprobe loads missing modules from /lib/modules",
    read: async (node) => ({
      ...(await node.mounts()),
      modules: await node.modules().catch(() => undefined),
    }),
    judge({ modulesFolder, modules }, { kernelRelease }) {
      if (modulesFolder !== undefined) return ok(modulesFolder);
      const evidence = `/lib/modules/${kernelRelease} does not exist`;
      if (modules?.every(({ state }) => state === "available") === true)
        return ok(`${evidence}, but is not needed: every module is loaded or built in`);
      return warn(evidence, "mount the node's /lib/modules, or load the modules when it boots");
    },
  }),
  check({
    name: "scheduler",
    modes: ipvsMode,
    needs: ["ipvs"],
    why: "without the scheduler, no virtual server can be created, and kube-ipvs does not start",
    read: (node) => node.schedulerProblem(),
    judge(problem, { scheduler, kernelRelease }) {
      if (problem === undefined) return ok(`${scheduler} is available`);
      return fail(
        problem,
        `modprobe ip_vs_${scheduler} on the node, or set a different ipvs.scheduler; if the module is missing: ${modulesRemedy(kernelRelease)}`,
      );
    },
  }),
];
