/**
 * Random changes to a small cluster, as fast-check arbitraries. The objects are as an API server returns them. They use
 * every feature that affects the kernel, and also fields that an API server would reject. Names, addresses and ports
 * come from small pools, so that changes conflict: two Services claim the same address, an endpoint moves between
 * slices, or a different protocol reuses a node port.
 */
import fc from "fast-check";
import type { MemorySource, NamedObject } from "../memory-source.ts";
import { type ApiObject, node } from "../objects.ts";
import { present } from "./fields.ts";
import { services } from "./services.ts";
import { slices } from "./slices.ts";

export interface ClusterChange {
  readonly kind: "apply" | "delete";
  readonly object: NamedObject;
}

/** The zone, the rack, the primary address and the pod network may change. */
const nodes: fc.Arbitrary<ApiObject> = fc
  .record({
    zone: fc.constantFrom("z1", "z1", "z2", undefined),
    rack: fc.constantFrom("r1", "r1", undefined),
    addresses: fc.constantFrom(
      ["192.168.10.11", "fd00:10::11"],
      ["172.16.5.11", "fd00:10::11"],
      ["192.168.10.11"],
      ["nonsense"],
    ),
    podCidrs: fc.constantFrom(
      ["10.244.1.0/24", "fd00:244:1::/64"],
      ["10.244.9.0/24"],
      ["nonsense"],
    ),
  })
  .map(({ zone, rack, addresses, podCidrs }) => {
    const texts = { "topology.kubernetes.io/zone": zone, "example.com/rack": rack };
    const labels = present(texts) as Record<string, string>;
    return node({ addresses, podCidrs, metadata: { labels } });
  });

/** A known Node is never deleted, because its last state still applies, and a fresh start would not know it. */
export const clusterChanges: fc.Arbitrary<ClusterChange> = fc.oneof(
  { weight: 5, arbitrary: changes("apply", services) },
  { weight: 2, arbitrary: changes("delete", services) },
  { weight: 7, arbitrary: changes("apply", slices) },
  { weight: 2, arbitrary: changes("delete", slices) },
  { weight: 1, arbitrary: changes("apply", nodes) },
);

/** Settings that affect how objects are planned. Each set contains the flags of one daemon. */
export const clusterFlags: fc.Arbitrary<Readonly<Record<string, string>>> = fc
  .record({
    "nodeport-addresses": fc.constantFrom(undefined, "primary", "192.168.10.0/24,fd00:10::/64"),
    "masquerade-all": fc.constantFrom(undefined, "true"),
    "detect-local-mode": fc.constantFrom("ClusterCIDR", "ClusterCIDR", "NodeCIDR"),
    "ipvs-scheduler": fc.constantFrom("rr", "mh"),
    "kube-ipvs-foreign-virtual-servers": fc.constantFrom("keep", "delete"),
    "kube-ipvs-reserved-addresses": fc.constantFrom(undefined, "refuse"),
    "kube-ipvs-port-range-marks": fc.constant("0x3fff0000"),
    "kube-ipvs-unbound-addresses": fc.constantFrom(undefined, "203.0.113.1/32,2001:db8::1/128"),
  })
  .map((flags) => present(flags) as Readonly<Record<string, string>>);

export function carryOut(
  { kind, object }: ClusterChange,
  source: Pick<MemorySource, "apply" | "delete">,
): void {
  source[kind](object);
}

function changes(
  kind: ClusterChange["kind"],
  objects: fc.Arbitrary<ApiObject>,
): fc.Arbitrary<ClusterChange> {
  return objects.map((object) => ({ kind, object: object as unknown as NamedObject }));
}
