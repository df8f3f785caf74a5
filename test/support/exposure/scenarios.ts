/** Events that affect source ranges: Service changes, and damage by a third party. */
import type { ServicePortRecord, ServiceRecord } from "../../../src/api/objects.ts";
import type { FakeKernel } from "../fake-kernel/fake-kernel.ts";
import { cidr, ip, portRecord, serviceRecord } from "../records.ts";
import type { Mode } from "./programs.ts";

export interface Scenario {
  readonly name: string;
  /** Services that are in the kernel at the start. Undefined if the kernel is empty. */
  readonly before: readonly ServiceRecord[] | undefined;
  readonly after: readonly ServiceRecord[];
  /** Damage by a third party before `after` is planned. */
  damage?(kernel: FakeKernel): void;
  /** Whether the program restarts after the damage. */
  readonly isRestarted?: true;
  /** Whether a clean-up removes everything. */
  readonly isCleanUp?: true;
  /** Whether the damaged or removed object exists only in IPVS mode. */
  readonly isOfIpvs?: true;
  /** Whether `kubeIpvs.portRangeMarks` is set. */
  readonly hasPortRanges?: true;
  /** Whether `kubeIpvs.tunnelForwarding` and `kubeIpvs.strictSourceRanges` are on, too. */
  readonly hasTunnels?: true;
}

const first = cidr("198.51.100.0/24");
const second = cidr("203.0.113.200/29");
const wide = cidr("198.51.0.0/16");
const ofNode = cidr("192.168.10.0/24");

function loadBalancer(
  name: string,
  address: string,
  sourceRanges: ServiceRecord["sourceRanges"],
  others: Partial<ServiceRecord> = {},
): ServiceRecord {
  const number = name.codePointAt(0) ?? 0;
  return serviceRecord({
    name: `default/${name}`,
    type: "LoadBalancer",
    clusterIps: [ip(`10.96.0.${number}`)],
    loadBalancerIps: [ip(address)],
    sourceRanges,
    ...others,
  });
}

const port = (name: string, number: number): ServicePortRecord =>
  portRecord({ name, port: number });
const twoPorts = { ports: [port("http", 80), port("admin", 8080)] };

const open = loadBalancer("web", "203.0.113.10", []);
const closed = loadBalancer("web", "203.0.113.10", [first]);
const otherClosed = loadBalancer("xyz", "203.0.113.11", [second]);
const otherOpen = loadBalancer("xyz", "203.0.113.11", []);
const beside = loadBalancer("beside", "203.0.113.10", [], { ports: [port("http", 81)] });
const v6 = loadBalancer("six", "2001:db8:113::10", [cidr("2001:db8:100::/48")], {
  clusterIps: [ip("fd00:96::10")],
});

function ranges(...sourceRanges: ServiceRecord["sourceRanges"]): ServiceRecord {
  return { ...closed, sourceRanges };
}

const rangeAnnotation = "kube-ipvs.io/port-range";
/** The port at which packets to port ranges are traced. */
const portInRange = 25_000;

/** Adds a port range to a Service. */
function ranged(service: ServiceRecord): ServiceRecord {
  return { ...service, annotations: { [rangeAnnotation]: "20000-30000" } };
}

/** The port in the Service's range, if it has one. */
export function rangePortsOf({ annotations }: ServiceRecord): readonly number[] {
  return annotations?.[rangeAnnotation] === undefined ? [] : [portInRange];
}

function onRules(
  table: "filter" | "mangle",
  chain: string,
  pattern: RegExp,
): Pick<Scenario, "damage"> {
  return { damage: ({ iptables }) => iptables.table("IPv4", table).remove(chain, pattern) };
}

function onEntry(setName: string, prefix: string): Pick<Scenario, "damage"> {
  return {
    damage({ ipSets }) {
      for (const { set, entries } of ipSets.peek()) {
        if (set.name !== setName) continue;
        const lost = entries.filter((entry) => entry.startsWith(prefix));
        for (const entry of lost) ipSets.interfere({ kind: "entry-remove", set, entry });
      }
    },
  };
}

const flushed: Pick<Scenario, "damage"> = {
  damage: ({ iptables }) => iptables.table("IPv4", "filter").flush(),
};
const sole = { before: [closed], after: [closed] };

const scenarios: readonly Scenario[] = [
  { name: "first sync", before: undefined, after: [closed] },
  { name: "first sync of IPv6", before: undefined, after: [v6] },
  { name: "first Service with ranges added", before: [otherOpen], after: [otherOpen, closed] },
  { name: "Service with ranges added", before: [otherClosed], after: [otherClosed, closed] },
  { name: "Service added at the same address", before: [beside], after: [beside, closed] },
  { name: "first ranges added", before: [open], after: [closed] },
  { name: "ranges added", before: [otherClosed, open], after: [otherClosed, closed] },
  { name: "ranges changed", before: [closed], after: [ranges(second)] },
  { name: "ranges widened", before: [closed], after: [ranges(wide)] },
  { name: "node admitted", before: [closed], after: [ranges(first, ofNode)] },
  { name: "node excluded", before: [ranges(first, ofNode)], after: [closed] },
  {
    name: "last ranges removed",
    before: [closed, otherClosed],
    after: [open, otherOpen],
  },
  { name: "ranges removed", before: [otherClosed, closed], after: [otherClosed, open] },
  { name: "second port added", before: [closed], after: [{ ...closed, ...twoPorts }] },
  { name: "port removed", before: [{ ...closed, ...twoPorts }], after: [closed] },
  { name: "last Service removed", before: [closed], after: [] },
  { name: "Service removed", before: [otherClosed, closed], after: [otherClosed] },
  { name: "Service removed at the same address", before: [beside, closed], after: [beside] },
  { name: "clean-up", before: [closed, otherOpen], after: [], isCleanUp: true, isOfIpvs: true },
  { name: "filter flushed", ...sole, ...flushed },
  { name: "filter flushed before a start", ...sole, ...flushed, isRestarted: true },
  {
    name: "sets flushed before a start",
    ...sole,
    isOfIpvs: true,
    isRestarted: true,
    damage: ({ ipSets }) => ipSets.flush(),
  },
  { name: "jump from INPUT lost", ...sole, ...onRules("filter", "INPUT", /KUBE-PROXY-FIREWALL/) },
  { name: "all jumps from INPUT lost", ...sole, ...onRules("filter", "INPUT", /KUBE-/) },
  {
    name: "jump from OUTPUT lost",
    ...sole,
    isOfIpvs: true,
    ...onRules("filter", "OUTPUT", /KUBE-/),
  },
  {
    name: "DROP rule lost",
    ...sole,
    isOfIpvs: true,
    ...onRules("filter", "KUBE-SOURCE-RANGES-FIREWALL", /-j DROP/),
  },
  {
    name: "rule of the address guard lost",
    ...sole,
    isOfIpvs: true,
    ...onRules("filter", "KUBE-IPVS-FILTER", /-j REJECT/),
  },
  {
    name: "rule of a denied node lost",
    ...sole,
    isOfIpvs: true,
    ...onRules("filter", "KUBE-IPVS-OUT-FILTER", /./),
  },
  {
    name: "entry lost",
    ...sole,
    isOfIpvs: true,
    ...onEntry("KUBE-LOAD-BALANCER-FW", "203.0.113.10"),
  },
  {
    name: "guard entry lost",
    ...sole,
    isOfIpvs: true,
    ...onEntry("KUBE-IPVS-IPS", "203.0.113.10"),
  },
];

const ofRanges: readonly Scenario[] = [
  { name: "first sync", before: undefined, after: [ranged(closed)] },
  { name: "first sync of IPv6", before: undefined, after: [ranged(v6)] },
  { name: "first sync without source ranges", before: undefined, after: [ranged(open)] },
  { name: "Service added", before: [otherClosed], after: [otherClosed, ranged(closed)] },
  { name: "range added", before: [closed], after: [ranged(closed)] },
  { name: "range removed", before: [ranged(closed)], after: [closed] },
  { name: "source ranges added", before: [ranged(open)], after: [ranged(closed)] },
  { name: "source ranges changed", before: [ranged(closed)], after: [ranged(ranges(second))] },
  { name: "source ranges removed", before: [ranged(closed)], after: [ranged(open)] },
  { name: "Service removed", before: [otherClosed, ranged(closed)], after: [otherClosed] },
  { name: "clean-up", before: [ranged(closed), otherOpen], after: [], isCleanUp: true },
  {
    ...{ name: "marks lost", before: [ranged(closed)], after: [ranged(closed)] },
    ...onRules("mangle", "KUBE-IPVS-RANGES", /./),
  },
  {
    ...{ name: "jump lost", before: [ranged(closed)], after: [ranged(closed)] },
    ...onRules("mangle", "PREROUTING", /KUBE-IPVS-RANGES/),
  },
];
const rangeScenarios = ofRanges.map(
  (scenario): Scenario => ({
    ...{ ...scenario, name: `port range: ${scenario.name}` },
    ...{ isOfIpvs: true, hasPortRanges: true },
  }),
);

const tunnelAnnotation = "kube-ipvs.io/forwarding";

/** Adds tunnel forwarding and node ports to a Service. */
function tunneled(service: ServiceRecord): ServiceRecord {
  const ports = service.ports.map((one) => ({ ...one, nodePort: 30_000 + one.port }));
  return { ...service, ports, annotations: { [tunnelAnnotation]: "tunnel" } };
}

/** Whether other nodes may forward packets to the Service. */
export function isTunneled({ annotations }: ServiceRecord): boolean {
  return annotations?.[tunnelAnnotation] !== undefined;
}

const ofTunnels: readonly Scenario[] = [
  { name: "first sync", before: undefined, after: [tunneled(closed)] },
  { name: "first sync of IPv6", before: undefined, after: [tunneled(v6)] },
  { name: "Service added", before: [otherClosed], after: [otherClosed, tunneled(closed)] },
  { name: "annotation added", before: [closed], after: [tunneled(closed)] },
  { name: "annotation removed", before: [tunneled(closed)], after: [closed] },
  { name: "source ranges added", before: [tunneled(open)], after: [tunneled(closed)] },
  { name: "source ranges changed", before: [tunneled(closed)], after: [tunneled(ranges(second))] },
  // The other Service keeps the address bound.
  {
    name: "source ranges added beside another Service",
    ...{ before: [tunneled(open), beside], after: [tunneled(closed), beside] },
  },
  {
    name: "entry lost beside another Service",
    ...{ before: [tunneled(closed), beside], after: [tunneled(closed), beside] },
    ...onEntry("KUBE-LOAD-BALANCER-FW", "203.0.113.10"),
  },
  { name: "Service removed", before: [otherClosed, tunneled(closed)], after: [otherClosed] },
  { name: "clean-up", before: [tunneled(closed), otherOpen], after: [], isCleanUp: true },
  {
    ...{ name: "entry lost", before: [tunneled(closed)], after: [tunneled(closed)] },
    ...onEntry("KUBE-LOAD-BALANCER-FW", "203.0.113.10"),
  },
  { name: "filter flushed", before: [tunneled(closed)], after: [tunneled(closed)], ...flushed },
  {
    ...{ name: "marks lost", before: [tunneled(closed)], after: [tunneled(closed)] },
    ...onRules("mangle", "KUBE-IPVS-TUNNEL", /./),
  },
];
const tunnelScenarios = ofTunnels.map(
  (scenario): Scenario => ({
    ...{ ...scenario, name: `tunnel: ${scenario.name}` },
    ...{ isOfIpvs: true, hasPortRanges: true, hasTunnels: true },
  }),
);

export function scenariosOf({ name }: Pick<Mode, "name">): readonly Scenario[] {
  return [...scenarios, ...rangeScenarios, ...tunnelScenarios].filter(
    ({ isOfIpvs }) => name === "ipvs" || isOfIpvs !== true,
  );
}
