import type { Kernel } from "../../../src/kernel/kernel.ts";
import { FakeConntrack } from "./fake-conntrack.ts";
import { FakeIpSets } from "./fake-ip-sets.ts";
import { FakeIptables } from "./fake-iptables.ts";
import { FakeIpvs } from "./fake-ipvs.ts";
import { FakeLink } from "./fake-link.ts";
import { FakeModules } from "./fake-modules.ts";
import { FakeSysctl } from "./fake-sysctl.ts";
import { Operations } from "./operations.ts";

/**
 * A kernel in memory. It refuses what the kernel refuses, logs every change in `operations`, and can be
 * made to fail, to lose a reply, or to "die" at the n-th change. The contract suite keeps it honest: the
 * same cases run against it and, in the lab, against the real one.
 *
 *     const kernel = new FakeKernel();
 *     kernel.operations.failNth(3, errno.EPERM);
 *     kernel.operations.texts(); // ["link create-link kube-ipvs0", …]
 */
export class FakeKernel implements Kernel {
  readonly operations: Operations = new Operations();
  readonly ipvs: FakeIpvs = new FakeIpvs(this.operations);
  readonly iptables: FakeIptables = new FakeIptables(this.operations);
  readonly ipSets: FakeIpSets = new FakeIpSets(this.operations, (name) =>
    this.iptables.referencesTo(name),
  );
  readonly link: FakeLink = new FakeLink(this.operations);
  readonly conntrack: FakeConntrack = new FakeConntrack(this.operations);
  readonly sysctl: FakeSysctl = new FakeSysctl(this.operations);
  readonly modules: FakeModules = new FakeModules(this.operations);

  constructor() {
    this.iptables.useSets((name) => this.ipSets.has(name));
  }
}
