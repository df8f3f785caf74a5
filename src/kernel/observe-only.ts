import type { IpSets, Iptables, Ipvs, Kernel, Modules } from "./kernel.ts";
import { ModuleError } from "./modules/module-error.ts";

/**
 * A read-only kernel: every write succeeds without effect. Modules are not loaded and schedulers are not probed,
 * because both change the kernel. A scheduler is reported as missing only if its module is certainly missing.
 */
export function observeOnly(kernel: Kernel): Kernel {
  const { ipSets, otherSets, link, watchTables, accounting, conntrack, sysctl, modules } = kernel;
  const { unusedBackends } = kernel;
  return {
    ipvs: observedIpvs(kernel.ipvs, modules),
    ipSets: observedSets(ipSets),
    ...(otherSets === undefined ? {} : { otherSets: observedSets(otherSets) }),
    link: {
      name: link.name,
      find: () => link.find(),
      ensure: async () => ((await link.find()) === undefined ? newLink : oldLink),
      async remove() {},
      listAddresses: () => link.listAddresses(),
      listGateways: () => link.listGateways(),
      removeOtherForm: async () => 0,
      apply: noFailures,
      watch: (onChange, onError) => link.watch(onChange, onError),
    },
    iptables: observedIptables(kernel.iptables),
    ...(unusedBackends === undefined
      ? {}
      : { unusedBackends: async () => (await unusedBackends()).map(observedIptables) }),
    ...(watchTables === undefined ? {} : { watchTables }),
    ...(accounting === undefined
      ? {}
      : { accounting: { has: (name) => accounting.has(name), async ensure() {} } }),
    conntrack: {
      listUdpFlows: (family, selection) => conntrack.listUdpFlows(family, selection),
      remove: async (flows) => flows.length,
    },
    sysctl: {
      read: (path) => sysctl.read(path),
      ensure: () => false,
    },
    modules: {
      isAvailable: (name) => modules.isAvailable(name),
      isLoadable: (name) => modules.isLoadable(name),
      readParameter: (module, name) => modules.readParameter(module, name),
      writeParameter() {},
      async load(name) {
        const advice = `run modprobe ${name} on the node`;
        throw new ModuleError(name, "observe-only mode changes nothing", advice);
      },
    },
  };
}

/** The index of a link that was not created is never used. */
const newLink = { index: 0, wasCreated: true } as const;
const oldLink = { index: 0, wasCreated: false } as const;

async function noFailures(): Promise<readonly never[]> {
  return [];
}

function observedSets(ipSets: IpSets): IpSets {
  return {
    listSets: () => ipSets.listSets(),
    listEntries: (set) => ipSets.listEntries(set),
    async create() {},
    async destroy() {},
    async swap() {},
    apply: noFailures,
  };
}

function observedIptables(iptables: Iptables): Iptables {
  return {
    backend: iptables.backend,
    get choice() {
      return iptables.choice;
    },
    checkBackend: () => iptables.checkBackend(),
    observe: (family, scope) => iptables.observe(family, scope),
    readGeneration: (family) => iptables.readGeneration(family),
    async apply() {},
    render: (family, rule) => iptables.render(family, rule),
    parse: (text) => iptables.parse(text),
    probe: (family) => iptables.probe(family),
  };
}

function observedIpvs(ipvs: Ipvs, modules: Modules): Ipvs {
  return {
    listVirtualServers: () => ipvs.listVirtualServers(),
    findVirtualServers: (ids) => ipvs.findVirtualServers(ids),
    readRealServers: (ids, cached) => ipvs.readRealServers(ids, cached),
    listRealServers: (ids) => ipvs.listRealServers(ids),
    listTraffic: () => ipvs.listTraffic(),
    sumConnections: (ids) => ipvs.sumConnections(ids),
    hasEstablished: (ids) => ipvs.hasEstablished(ids),
    listRealServerTraffic: (ids) => ipvs.listRealServerTraffic(ids),
    apply: noFailures,
    readTimeouts: () => ipvs.readTimeouts(),
    async writeTimeouts() {},
    async checkScheduler(scheduler) {
      const module = `ip_vs_${scheduler}`;
      if (modules.isAvailable(module) !== false || modules.isLoadable(module) !== false) return;
      throw new Error(
        `Cannot use scheduler ${scheduler}: the kernel has no module ${module}; choose a different scheduler`,
      );
    },
  };
}
