import type { IpSets, Kernel } from "./kernel.ts";
import { ModuleError } from "./modules/module-error.ts";

/** The names of methods that only read begin with one of these words. */
type Reading =
  | "backend"
  | "choice"
  | "find"
  | "has"
  | "is"
  | "list"
  | "name"
  | "observe"
  | "parse"
  | "probe"
  | "read"
  | "render"
  | "sum"
  | "watch";

type Writes<Client> = Omit<Client, `${Reading}${string}`>;

/**
 * A read-only kernel: every write succeeds without effect. Modules are not loaded and schedulers are not probed,
 * because both change the kernel. A scheduler is reported as missing only if its module is certainly missing.
 */
export function observeOnly(kernel: Kernel): Kernel {
  const { otherSets, link, watchTables, unusedBackends, accounting, modules } = kernel;
  const observedIptables = (iptables: Kernel["iptables"]): Kernel["iptables"] =>
    observed(iptables, { checkBackend: () => iptables.checkBackend(), async apply() {} });
  return {
    ipvs: observed(kernel.ipvs, {
      apply: noFailures,
      async writeTimeouts() {},
      async checkScheduler(scheduler) {
        const module = `ip_vs_${scheduler}`;
        if (modules.isAvailable(module) !== false || modules.isLoadable(module) !== false) return;
        throw new Error(
          `Cannot use scheduler ${scheduler}: the kernel has no module ${module}; choose a different scheduler`,
        );
      },
    }),
    ipSets: observed(kernel.ipSets, noSetWrites),
    ...(otherSets === undefined ? {} : { otherSets: observed(otherSets, noSetWrites) }),
    link: observed(link, {
      ensure: async () => ((await link.find()) === undefined ? newLink : oldLink),
      async remove() {},
      removeOtherForm: async () => 0,
      apply: noFailures,
    }),
    iptables: observedIptables(kernel.iptables),
    ...(unusedBackends === undefined
      ? {}
      : { unusedBackends: async () => (await unusedBackends()).map(observedIptables) }),
    ...(watchTables === undefined ? {} : { watchTables }),
    ...(accounting === undefined
      ? {}
      : { accounting: observed(accounting, { async ensure() {} }) }),
    conntrack: observed(kernel.conntrack, { remove: async (flows) => flows.length }),
    sysctl: observed(kernel.sysctl, { ensure: () => false }),
    modules: observed(modules, {
      writeParameter() {},
      async load(name) {
        const advice = `run modprobe ${name} on the node`;
        throw new ModuleError(name, "observe-only mode changes nothing", advice);
      },
    }),
  };
}

/** Replaces the client's writes. The compiler requires that `writes` has every method that is not a read. */
function observed<Client extends object>(client: Client, writes: Writes<Client>): Client {
  return new Proxy(client, {
    get(_, name) {
      if (name in writes) return Reflect.get(writes, name);
      const member = Reflect.get(client, name);
      return typeof member === "function" ? member.bind(client) : member;
    },
  });
}

/** The index of a link that was not created is never used. */
const newLink = { index: 0, wasCreated: true } as const;
const oldLink = { index: 0, wasCreated: false } as const;

const noSetWrites: Writes<IpSets> = {
  async create() {},
  async destroy() {},
  async swap() {},
  apply: noFailures,
};

async function noFailures(): Promise<readonly never[]> {
  return [];
}
