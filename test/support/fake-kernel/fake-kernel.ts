import { type IpFamily, ipFamilies } from "../../../src/base/ip.ts";
import type { IpSets, Iptables, Kernel, NftTables } from "../../../src/kernel/kernel.ts";
import { tableName } from "../../../src/kernel/nftables/message.ts";
import { FakeConntrack } from "./fake-conntrack.ts";
import { FakeIpSets } from "./fake-ip-sets.ts";
import { FakeIptables } from "./fake-iptables.ts";
import { FakeIpvs } from "./fake-ipvs.ts";
import { FakeLink } from "./fake-link.ts";
import { FakeModules } from "./fake-modules.ts";
import { FakeSysctl } from "./fake-sysctl.ts";
import { Operations } from "./operations.ts";

/**
 * A kernel in memory. It rejects the same changes as the real kernel, logs every change in `operations`, and can fail,
 * lose a reply, or simulate a kill at the n-th change. The contract suite runs the same cases on it and, in the lab, on
 * the real kernel. For example, `kernel.operations.failNth(3, errno.EPERM)` fails the third change, and
 * `kernel.operations.texts()` returns ["link create-link kube-ipvs0", …].
 */
export class FakeKernel implements Kernel {
  readonly operations: Operations = new Operations();
  readonly ipvs: FakeIpvs = new FakeIpvs(this.operations);
  readonly #writers: Readonly<Record<Writer, RulesAndSets>> = {
    iptables: rulesAndSets(this.operations, "legacy"),
    nftables: rulesAndSets(this.operations, "nftables"),
  };
  /** The rules and sets of the writer in use, which {@link useRules} changes. */
  iptables: FakeIptables = this.#writers.iptables.iptables;
  ipSets: FakeIpSets = this.#writers.iptables.ipSets;
  /** Like `otherSets` and `nftTables`, does not exist before {@link useRules}. */
  declare unusedBackends?: () => Promise<readonly Iptables[]>;
  declare otherSets?: IpSets;
  declare nftTables?: NftTables;
  readonly link: FakeLink = new FakeLink(this.operations);
  readonly conntrack: FakeConntrack = new FakeConntrack(this.operations);
  readonly sysctl: FakeSysctl = new FakeSysctl(this.operations);
  readonly modules: FakeModules = new FakeModules(this.operations);

  /** Selects how rules and sets are written from now on. Those of the other writer remain until they are removed. */
  useRules(writer: Writer): void {
    const { iptables, nftables } = this.#writers;
    const isNft = writer === "nftables";
    const used = isNft ? nftables : iptables;
    this.iptables = used.iptables;
    this.ipSets = used.ipSets;
    this.otherSets = isNft ? iptables.ipSets : nftables.ipSets;
    this.unusedBackends = async () => (isNft ? [iptables.iptables] : []);
    this.nftTables = {
      has: async (family, name) => name === tableName && namesIn(nftables, family).length > 0,
      remove: async (family, name) => {
        const subject = `${family} ${name}`;
        this.operations.change({ facility: "iptables", action: "remove-table", subject }, () => {
          for (const table of ["nat", "filter", "mangle"] as const)
            nftables.iptables.table(family, table).flush();
          for (const { set } of nftables.ipSets.peek())
            if (set.family === family) nftables.ipSets.lose(set.name);
        });
      },
    };
  }

  /** Looks for leftover rules, as a real client does when it is opened. */
  findLeftovers(): void {
    this.#writers.iptables.iptables.findLeftovers();
  }

  /** The names of our chains and sets of the writer that is not in use. */
  unusedNames(family?: IpFamily): readonly string[] {
    const families = family === undefined ? ipFamilies : [family];
    return families.flatMap((one) => namesIn(this.unusedRules, one));
  }

  /** The rules and sets of the writer that is not in use. Packets traverse them, too. */
  get unusedRules(): RulesAndSets {
    const { iptables, nftables } = this.#writers;
    return this.iptables === iptables.iptables ? nftables : iptables;
  }
}

type Writer = "iptables" | "nftables";

export interface RulesAndSets {
  readonly iptables: FakeIptables;
  readonly ipSets: FakeIpSets;
}

function rulesAndSets(operations: Operations, backend: Iptables["backend"]): RulesAndSets {
  const iptables = new FakeIptables(operations, backend);
  const ipSets = new FakeIpSets(operations, (name) => iptables.referencesTo(name));
  iptables.useSets((name) => ipSets.has(name));
  return { iptables, ipSets };
}

/** Chains that kube-ipvs removes, and sets. */
function namesIn({ iptables, ipSets }: RulesAndSets, family: IpFamily): readonly string[] {
  const chains = iptables.peek(family).filter(({ name }) => /^KUBE-(?!FIREWALL$)/.test(name));
  const sets = ipSets.peek().filter(({ set }) => set.family === family);
  return [
    ...chains.map(({ table, name }) => `${table} ${name}`),
    ...sets.map(({ set }) => set.name),
  ];
}
