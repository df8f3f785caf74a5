import type { EndpointRecord, EndpointSliceRecord, ServiceRecord } from "../../src/api/objects.ts";
import { ipFamilies } from "../../src/base/ip.ts";
import { silentLogger } from "../../src/base/log.ts";
import { DesiredState } from "../../src/plan/desired-state.ts";
import { planService } from "../../src/plan/planner.ts";
import { planRules } from "../../src/plan/rules.ts";
import type { SysctlSetting } from "../../src/plan/sysctls.ts";
import {
  Reconciler,
  type ReconcilerOptions,
  type ReconcilerParts,
} from "../../src/reconcile/reconciler.ts";
import type { SyncReport } from "../../src/reconcile/report.ts";
import { FakeClock } from "./fake-clock.ts";
import { FakeKernel } from "./fake-kernel/fake-kernel.ts";
import { addressesText, ipSetText, ipvsText } from "./fake-kernel/state-text.ts";
import { ip, planOptions, sliceRecord } from "./records.ts";

const options: ReconcilerOptions = {
  ownership: { foreignVirtualServers: "keep", excludeCidrs: [] },
  drain: { tcpDeadlineSeconds: 900, udpDeadlineSeconds: 0 },
};
const plan = planOptions();
const nodeAddresses = new Set([ip("192.168.10.11"), ip("172.16.5.11"), ip("fd00:10::11")]);

/** A reconciler with its desired state over one fake kernel; a second one is a restart. */
export class Bench {
  readonly kernel: FakeKernel;
  readonly clock: FakeClock;
  readonly desired: DesiredState = new DesiredState();
  readonly reconciler: Reconciler;
  sysctls: readonly SysctlSetting[] = [];

  constructor(
    kernel: FakeKernel = new FakeKernel(),
    overrides: Partial<ReconcilerOptions> = {},
    parts: Partial<Omit<ReconcilerParts, "kernel" | "clock">> & { readonly clock?: FakeClock } = {},
  ) {
    this.kernel = kernel;
    this.clock = parts.clock ?? new FakeClock();
    this.reconciler = new Reconciler(
      { log: silentLogger, ...parts, kernel, clock: this.clock },
      { ...options, ...overrides },
    );
  }

  put(
    service: ServiceRecord,
    endpoints: readonly EndpointRecord[] = [],
    slices: Partial<EndpointSliceRecord> = {},
  ): void {
    const names = { service: service.name, name: `${service.name}-1` };
    const slice = sliceRecord(endpoints, { ...names, ...slices });
    for (const { family, servicePorts } of planService(service.name, service, [slice], plan)) {
      this.desired.replace(service.name, family, servicePorts);
    }
  }

  drop(name: string): void {
    for (const family of ipFamilies) this.desired.replace(name, family, []);
  }

  sync(isFull = false): Promise<SyncReport> {
    const dirty = this.desired.takeDirty();
    const rules = ipFamilies.map((family) => {
      const input = {
        family,
        filledSets: this.desired.filledSets(family),
        deniedToNode: this.desired.deniedToNode(family),
        localDetector: plan.families.get(family)?.localDetector,
        isMasqueradeAll: false,
        masqueradeMark: 0x4000,
      };
      return [family, planRules(input)] as const;
    });
    return this.reconciler.sync({
      desired: this.desired,
      dirty: isFull ? "all" : dirty,
      touched: dirty,
      rules: new Map(rules),
      nodeAddresses,
      sysctls: this.sysctls,
    });
  }

  /** Whether the kernel is as it is known, with the node's addresses as they are. */
  confirm(): Promise<boolean> {
    return this.reconciler.confirm(nodeAddresses);
  }

  checkDrains(): Promise<SyncReport> {
    return this.reconciler.checkDrains(this.desired);
  }

  /** What the next sync writes, as text. */
  async writes(isFull = false): Promise<readonly string[]> {
    this.kernel.operations.clear();
    await this.sync(isFull);
    return this.kernel.operations.texts();
  }

  state(): string {
    return ipvsText(this.kernel) + ipSetText(this.kernel) + addressesText(this.kernel);
  }
}
