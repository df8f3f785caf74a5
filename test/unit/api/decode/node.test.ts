import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { NodeRecord } from "../../../../src/api/objects.ts";
import type { IpAddress } from "../../../../src/base/ip.ts";
import { type ApiObject, node } from "../../../support/objects.ts";
import { decode } from "./decoding.ts";

const node1: NodeRecord = {
  name: "node-1",
  addresses: ["192.168.10.11", "fd00:10::11"] as IpAddress[],
  podCidrs: [
    { address: "10.244.1.0" as IpAddress, prefixLength: 24 },
    { address: "fd00:244:1::" as IpAddress, prefixLength: 64 },
  ],
  zone: "z1",
  isEligible: true,
};
const { zone: _, ...withoutZone } = node1;

const cases: readonly {
  readonly name: string;
  readonly given: ApiObject;
  readonly want: NodeRecord;
  readonly reasons?: readonly string[];
}[] = [
  { name: "is reduced to a record", given: node(), want: node1 },
  {
    name: "lists internal addresses before external ones",
    given: node({
      status: {
        addresses: [
          { type: "ExternalIP", address: "203.0.113.1" },
          { type: "InternalIP", address: "192.168.10.11" },
        ],
      },
    }),
    want: { ...node1, addresses: ["192.168.10.11", "203.0.113.1"] as IpAddress[] },
  },
  {
    name: "may have no zone label",
    given: node({ metadata: { labels: {} } }),
    want: withoutZone,
  },
  {
    name: "may have an empty zone",
    given: node({ labels: { "topology.kubernetes.io/zone": "" } }),
    want: { ...node1, zone: "" },
  },
  {
    name: "falls back to podCIDR",
    given: node({ spec: { podCIDRs: undefined } }),
    want: { ...node1, podCidrs: node1.podCidrs.slice(0, 1) },
  },
  {
    name: "is not eligible while it is being deleted",
    given: node({ metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } }),
    want: { ...node1, isEligible: false },
  },
  {
    name: "keeps the positions of its taint kube-ipvs/not-ready",
    given: node({
      spec: {
        taints: [
          { key: "kube-ipvs/not-ready", effect: "NoSchedule" },
          { key: "a" },
          { key: "kube-ipvs/not-ready", effect: "NoExecute" },
        ],
      },
    }),
    want: { ...node1, notReadyTaints: [0, 2] },
  },
  {
    name: "is not eligible if the autoscaler has marked it",
    given: node({ spec: { taints: [{ key: "a" }, { key: "ToBeDeletedByClusterAutoscaler" }] } }),
    want: { ...node1, isEligible: false },
  },
  {
    name: "has the weight in its label",
    given: node({ labels: { "kube-ipvs.io/weight": "16" } }),
    want: { ...node1, weight: 16 },
  },
  {
    name: "omits an invalid weight",
    given: node({ labels: { "kube-ipvs.io/weight": "65536" } }),
    want: node1,
    reasons: ["metadata.labels[kube-ipvs.io/weight] invalid-node-weight"],
  },
  {
    name: "omits invalid addresses and CIDRs",
    given: node({
      addresses: ["192.168.10.11", "x"],
      podCidrs: ["10.244.1.0/24", "10.244.1.0"],
      spec: { taints: "all" },
    }),
    want: {
      ...node1,
      addresses: node1.addresses.slice(0, 1),
      podCidrs: node1.podCidrs.slice(0, 1),
    },
    reasons: [
      "spec.taints not-a-list",
      "status.addresses[1].address invalid-node-address",
      "spec.podCIDRs[1] invalid-pod-cidr",
    ],
  },
];

describe("a Node", () => {
  for (const { name, given, want, reasons = [] } of cases) {
    it(name, () => {
      const decoding = decode("nodes", given);
      const { labels: _, ...record } = decoding.record ?? {};
      assert.deepEqual(record, want);
      assert.deepEqual(decoding.reasons, reasons);
    });
  }

  it("has its labels, except values that are not texts", () => {
    const labels = { "example.com/rack": "a", empty: "", odd: 1 };
    const { record } = decode("nodes", node({ metadata: { labels } }));
    assert.deepEqual(record?.labels, { "example.com/rack": "a", empty: "" });
  });
});
