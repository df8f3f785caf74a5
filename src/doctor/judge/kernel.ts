/** Kernel, its modules, and what this process may do. Pure. */

import { linux, linuxOf } from "../../base/kernel-version.ts";
import { fail, type Judgement, ok, unknown, warn } from "../check.ts";
import { ipvsStateOf, judging, type ModuleState, type NodeFacts } from "../facts.ts";

interface KernelFault {
  /** The first version that has it; absent: every one before. */
  readonly from?: number;
  /** The first version that has it no more. */
  readonly before: number;
  readonly what: string;
}

/** What IPVS does wrong for a proxy, by version. */
const faults: readonly KernelFault[] = [
  {
    before: linux(4, 18),
    what: "before 4.18 session affinity keeps clients at a draining real server",
  },
  {
    from: linux(4, 1),
    before: linux(5, 9),
    what: "before 5.9 a client that reuses its port within a minute may meet a draining real server",
  },
  { before: linux(4, 19), what: "kube-ipvs is meant for 4.19 and newer" },
];

export function judgeKernel({ kernelRelease }: NodeFacts): Judgement {
  const version = linuxOf(kernelRelease);
  if (version === undefined) return unknown(`release "${kernelRelease}" is no version number`);
  const present = faults.filter(({ from = 0, before }) => version >= from && version < before);
  if (present.length === 0) return ok(`Linux ${kernelRelease}: no known fault of IPVS`);
  const words = present.map(({ what }) => what).join("; ");
  return warn(`Linux ${kernelRelease}: ${words}`, "use Linux 5.9 or newer");
}

export function judgeCapabilities({ missingCapabilities }: NodeFacts): Judgement {
  return judging(missingCapabilities, (missing) => {
    if (missing.length === 0) return ok("NET_ADMIN and NET_RAW are there");
    const remedy = `run as root, or with securityContext.capabilities.add: [${missing.join(", ")}]`;
    return fail(`missing: ${missing.join(", ")}`, remedy);
  });
}

/** The checks that need IPVS are skipped if it is not available. */
export function judgeIpvs(facts: NodeFacts): Judgement {
  const { kernelRelease, isBeforeInstall } = facts;
  switch (ipvsStateOf(facts)) {
    case "available":
      return ok("IPVS available: yes");
    case "loadable":
      return ok("IPVS available: yes, ip_vs is loaded when kube-ipvs starts");
    case "missing":
      return fail(
        `IPVS available: no, the kernel ${kernelRelease} has no ip_vs`,
        "install the kernel's extra modules, use a kernel with CONFIG_IP_VS, or set mode: iptables",
      );
    case "unknown": {
      const evidence = "IPVS available: no, ip_vs is not loaded and /lib/modules cannot be seen";
      const remedy = "modprobe ip_vs on the node, or mount its /lib/modules";
      return isBeforeInstall ? unknown(evidence, remedy) : fail(evidence, remedy);
    }
  }
}

/** All but ip_vs, which has a check of its own. */
export function judgeModules({ modules, kernelRelease }: NodeFacts): Judgement {
  return judging(modules, (needed) => {
    const all = needed.filter(({ name }) => name !== "ip_vs");
    const named = (wanted: ModuleState): readonly string[] =>
      all.filter(({ state }) => state === wanted).map(({ name }) => name);
    const missing = named("missing");
    if (missing.length > 0) {
      const remedy = `install the kernel's extra modules for ${kernelRelease}, or a kernel that has them`;
      return fail(`the kernel has no ${missing.join(", ")}`, remedy);
    }
    const unsure = named("unknown");
    if (unsure.length > 0) {
      const remedy = "run on the node, or mount its /lib/modules";
      return unknown(`cannot find out whether the kernel has ${unsure.join(", ")}`, remedy);
    }
    const loadable = named("loadable");
    const count = `${all.length - loadable.length} of ${all.length} are loaded or built in`;
    return ok(loadable.length === 0 ? count : `${count}, loadable: ${loadable.join(", ")}`);
  });
}

export function judgeScheduler({ schedulerProblem, scheduler }: NodeFacts): Judgement {
  return judging(schedulerProblem, (problem) => {
    if (problem === undefined) return ok(`${scheduler} is there`);
    return fail(problem, `modprobe ip_vs_${scheduler} on the node, or set another ipvs.scheduler`);
  });
}

export function judgeModulesFolder({ mounts, modules, kernelRelease }: NodeFacts): Judgement {
  return judging(mounts, ({ modulesFolder }) => {
    if (modulesFolder !== undefined) return ok(modulesFolder);
    const evidence = `/lib/modules/${kernelRelease} is not there`;
    const areAvailable =
      "value" in modules && modules.value.every(({ state }) => state === "available");
    if (areAvailable) return ok(`${evidence}, and not needed: every module is loaded or built in`);
    return warn(evidence, "mount the node's /lib/modules, or load the modules when it boots");
  });
}
