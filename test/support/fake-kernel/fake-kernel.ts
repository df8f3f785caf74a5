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
 * A kernel in memory. It rejects the same changes as the real kernel, logs every change in `operations`, and can fail,
 * lose a reply, or simulate a kill at the n-th change. The contract suite runs the same cases on it and, in the lab, on
 * the real kernel. For example, `kernel.operations.failNth(3, errno.EPERM)` fails the third change, and
 * `kernel.operations.texts()` returns ["link create-link kube-ipvs0", …].
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
