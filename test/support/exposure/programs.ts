/** The code under test: in each mode, a reconciler with its plan on the fake kernel. */
import assert from "node:assert/strict";
import type { EndpointSliceRecord, ServiceRecord } from "../../../src/api/objects.ts";
import { familyOf, type IpAddress, type IpFamily, ipFamilies } from "../../../src/base/ip.ts";
import { sharedChains } from "../../../src/plan/iptables/shared-chains.ts";
import { TablesPlan } from "../../../src/plan/iptables/tables-plan.ts";
import type { PlanOptions } from "../../../src/plan/options.ts";
import { TablesReconciler } from "../../../src/reconcile/iptables/tables-reconciler.ts";
import { tunnelLinks } from "../../../src/state/tunnel-link.ts";
import type { FakeClock } from "../fake-clock.ts";
import type { FakeKernel } from "../fake-kernel/fake-kernel.ts";
import { iptablesOptions } from "../iptables-records.ts";
import { Bench } from "../reconcile-bench.ts";
import { endpointRecord, ip, sliceRecord } from "../records.ts";

export interface Program {
  put(service: ServiceRecord): void;
  drop(service: ServiceRecord): void;
  /** Checks for third-party changes, then syncs. Returns whether the result of every request is known. */
  sync(): Promise<boolean>;
  /** Whether a Service uses tunnels, so that their link is not removed before the sync. */
  usesTunnels?(family: IpFamily): boolean;
  /** Whether the link for tunnels may exist after the sync. */
  mayReceive?(family: IpFamily): boolean;
}

/** Settings of IPVS mode. */
export type Settings = Pick<PlanOptions, "portRangeMarks" | "tunnels"> &
  Partial<Pick<PlanOptions, "families">>;

/** Another Node, which may send tunneled packets. */
export const otherNodes: Readonly<Record<IpFamily, IpAddress>> = {
  IPv4: ip("192.168.10.12"),
  IPv6: ip("fd00:10::12"),
};

export interface Mode {
  readonly name: "ipvs" | "iptables";
  start(kernel: FakeKernel, clock: FakeClock, settings?: Settings): Program;
}

export const ipvsMode: Mode = {
  name: "ipvs",
  start: (kernel, clock, settings = {}) => new IpvsProgram(kernel, clock, settings),
};

export const iptablesMode: Mode = {
  name: "iptables",
  start: (kernel, clock) => new IptablesProgram(kernel, clock),
};

class IpvsProgram implements Program {
  readonly #bench: Bench;

  constructor(kernel: FakeKernel, clock: FakeClock, settings: Settings) {
    this.#bench = new Bench(kernel, settings, { clock });
    if (settings.tunnels === undefined) return;
    for (const family of ipFamilies)
      this.#bench.desired.noteTunnelNodes(family, [otherNodes[family]]);
  }

  usesTunnels(family: IpFamily): boolean {
    return this.#bench.desired.tunnels(family).length > 0;
  }

  mayReceive(family: IpFamily): boolean {
    if (!this.usesTunnels(family)) return false;
    const { reconciler, desired } = this.#bench;
    const link = { type: "link", link: tunnelLinks[family].name } as const;
    return reconciler.canExist(link, { desired, rules: this.#bench.rules() }) === true;
  }

  put(service: ServiceRecord): void {
    const { endpoints, ...slice } = sliceOf(service);
    this.#bench.put(service, endpoints, slice);
  }

  drop({ name }: ServiceRecord): void {
    this.#bench.drop(name);
  }

  async sync(): Promise<boolean> {
    const { reconciler, kernel } = this.#bench;
    try {
      if (!reconciler.needsObservation) {
        await this.#bench.checkRules();
        await this.#bench.verify();
      }
    } catch {
      assert.ok(kernel.operations.hasCrashed, "reads fail only after a crash");
      return false;
    }
    return (await this.#bench.sync()).failures.length === 0;
  }
}

class IptablesProgram implements Program {
  readonly #plan = new TablesPlan({ startedAtMs: 0, onPlan: () => {} });
  readonly #options = iptablesOptions();
  readonly #reconciler: TablesReconciler;
  readonly #known = new Map<string, ServiceRecord>();

  constructor(kernel: FakeKernel, clock: FakeClock) {
    const families = [...this.#options.families.keys()];
    this.#reconciler = new TablesReconciler({
      ...{ kernel, clock, families, sharedChains, isDryRun: false },
    });
  }

  put(service: ServiceRecord): void {
    const { tracker } = this.#plan;
    tracker.noteService(this.#known.get(service.name), service);
    tracker.noteSlice(undefined, sliceOf(service));
    this.#known.set(service.name, service);
  }

  drop(service: ServiceRecord): void {
    this.#plan.tracker.noteService(service, undefined);
    this.#known.delete(service.name);
  }

  async sync(): Promise<boolean> {
    for (const _ of this.#plan.update(this.#options));
    if (await this.#reconciler.mayDiffer()) this.#reconciler.invalidate();
    return (await this.#reconciler.sync(this.#plan)).failures.length === 0;
  }
}

/** A slice with one endpoint on another node. */
function sliceOf({ name, clusterIps, ports }: ServiceRecord): EndpointSliceRecord {
  const family = familyOf(clusterIps[0] ?? ip("10.96.0.1"));
  const endpoint = endpointRecord(family === "IPv4" ? "10.244.2.11" : "fd00:244:2::11");
  return sliceRecord([endpoint], {
    name: `${name}-1`,
    service: name,
    family,
    ports: ports.map((port) => ({ ...port, port: port.port + 8000 })),
  });
}
