import type { EndpointRecord, EndpointSliceRecord, ServiceRecord } from "../../src/api/objects.ts";
import { type IpAddress, type IpFamily, ipFamilies } from "../../src/base/ip.ts";
import { silentLogger } from "../../src/base/log.ts";
import type { ServiceName } from "../../src/base/service-name.ts";
import { DesiredState } from "../../src/plan/desired-state.ts";
import type { PlanOptions } from "../../src/plan/options.ts";
import { RulesMemory } from "../../src/plan/rules-memory.ts";
import type { SysctlSetting } from "../../src/plan/sysctls.ts";
import { Reconciler, type ReconcilerDependencies } from "../../src/reconcile/reconciler.ts";
import type { SyncReport } from "../../src/reconcile/report.ts";
import type { SyncGoal } from "../../src/reconcile/sync-goal.ts";
import type { RuleSet } from "../../src/state/rule.ts";
import { FakeClock } from "./fake-clock.ts";
import { FakeKernel } from "./fake-kernel/fake-kernel.ts";
import { addressesText, ipSetText, ipvsText } from "./fake-kernel/state-text.ts";
import { planService } from "./plan-at-once.ts";
import { ip, planOptions, sliceRecord } from "./records.ts";

/** The inputs that a test may override. */
type BenchOptions = Pick<SyncGoal, "ownership" | "drain" | "manualWeights"> &
  Pick<ReconcilerDependencies, "isDryRun"> &
  Pick<PlanOptions, "portRangeMarks" | "tunnels"> &
  Partial<Pick<PlanOptions, "families">>;

const options: BenchOptions = {
  ownership: { foreignVirtualServers: "keep", excludeCIDRs: [] },
  drain: { tcpDeadlineSeconds: 900, udpDeadlineSeconds: 0 },
  manualWeights: "keep",
};
const plan = planOptions();
const nodeAddresses = new Set([ip("192.168.10.11"), ip("172.16.5.11"), ip("fd00:10::11")]);

/** A reconciler with its desired state on a fake kernel. A second reconciler simulates a restart. */
export class Bench {
  readonly kernel: FakeKernel;
  readonly clock: FakeClock;
  readonly desired: DesiredState = new DesiredState();
  readonly reconciler: Reconciler;
  readonly #options: BenchOptions;
  readonly #rulesMemory = new RulesMemory();
  sysctls: readonly SysctlSetting[] = [];
  nodeAddresses: ReadonlySet<IpAddress> = nodeAddresses;

  constructor(
    kernel: FakeKernel = new FakeKernel(),
    overrides: Partial<BenchOptions> = {},
    parts: Partial<Omit<ReconcilerDependencies, "kernel" | "clock">> & {
      readonly clock?: FakeClock;
    } = {},
  ) {
    this.#options = { ...options, ...overrides };
    const { isDryRun = false } = this.#options;
    this.kernel = kernel;
    this.clock = parts.clock ?? new FakeClock();
    this.reconciler = new Reconciler({
      log: silentLogger,
      ...parts,
      kernel,
      clock: this.clock,
      isDryRun,
    });
  }

  get #families(): PlanOptions["families"] {
    return this.#options.families ?? plan.families;
  }

  put(
    service: ServiceRecord,
    endpoints: readonly EndpointRecord[] = [],
    slices: Partial<EndpointSliceRecord> = {},
  ): void {
    const names = { service: service.name, name: `${service.name}-1` };
    const slice = sliceRecord(endpoints, { ...names, ...slices });
    const { portRangeMarks, tunnels } = this.#options;
    const withRanges = {
      ...{ ...plan, families: this.#families },
      ...(portRangeMarks === undefined ? {} : { portRangeMarks }),
      ...(tunnels === undefined ? {} : { tunnels }),
    };
    const plans = planService(service.name, service, [slice], withRanges);
    for (const { family, servicePorts } of plans) {
      this.desired.replace(service.name, family, servicePorts);
    }
  }

  drop(name: ServiceName): void {
    for (const family of ipFamilies) this.desired.replace(name, family, []);
  }

  /** If `isFull`, observes everything first. */
  sync(isFull = false): Promise<SyncReport> {
    if (isFull) this.reconciler.invalidate();
    const { ownership, drain, manualWeights } = this.#options;
    return this.reconciler.sync({
      desired: this.desired,
      touched: this.desired.takeDirty(),
      rules: this.rules(),
      sysctls: this.sysctls,
      missingModules: [],
      nodeAddresses: this.nodeAddresses,
      ownership,
      drain,
      manualWeights,
    });
  }

  rules(): ReadonlyMap<IpFamily, RuleSet> {
    const rules = ipFamilies.map((family) => {
      const input = {
        family,
        filledSets: this.desired.filledSets(family),
        deniedToNode: this.desired.deniedToNode(family),
        localDetector: this.#families.get(family)?.localDetector,
        edges: this.#families.get(family)?.edges,
        masqueradeAll: false,
        masqueradeMark: 0x4000,
        portRangeMarks: this.#options.portRangeMarks,
        ranges: this.desired.ranges(family),
        isTunnelingEnabled: this.#options.tunnels !== undefined,
        tunnels: this.desired.tunnels(family),
      };
      return [family, this.#rulesMemory.plan(input)] as const;
    });
    return new Map(rules);
  }

  /** Runs a complete verification. Returns whether anything differs. */
  async verify(): Promise<boolean> {
    const { verification } = this.reconciler;
    const steps = await verification.beginPeriod(this.sysctls, 1);
    for (const step of steps) await step();
    return this.reconciler.needsSync;
  }

  /** Runs the rule check between syncs. */
  checkRules(): Promise<boolean> {
    return this.reconciler.verification.checkRules(this.rules());
  }

  checkDrains(): Promise<SyncReport> {
    return this.reconciler.checkDrains(this.desired, this.#options.drain);
  }

  /** Runs a sync and returns its writes as text. */
  async writes(isFull = false): Promise<readonly string[]> {
    this.kernel.operations.clear();
    await this.sync(isFull);
    return this.kernel.operations.texts();
  }

  state(): string {
    return ipvsText(this.kernel) + ipSetText(this.kernel) + addressesText(this.kernel);
  }
}
