import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { withDefaults } from "../../../../src/api/manifest/defaults.ts";
import type { ResourceKind } from "../../../../src/api/source.ts";

const metadata = { name: "a", namespace: "default" };
const cases: readonly {
  readonly name: string;
  readonly kind?: ResourceKind;
  readonly given: unknown;
  readonly want: unknown;
}[] = [
  {
    name: "the namespace is default",
    given: { metadata: { name: "a" } },
    want: { metadata },
  },
  {
    name: "a Node has no namespace",
    kind: "nodes",
    given: { metadata: { name: "a" } },
    want: { metadata: { name: "a" } },
  },
  {
    name: "clusterIPs and ipFamilies come from clusterIP",
    given: { metadata, spec: { clusterIP: "10.96.0.1" } },
    want: {
      metadata,
      spec: { clusterIP: "10.96.0.1", clusterIPs: ["10.96.0.1"], ipFamilies: ["IPv4"] },
    },
  },
  {
    name: "clusterIP and ipFamilies come from clusterIPs",
    given: { metadata, spec: { clusterIPs: ["fd00::1", "10.96.0.1"] } },
    want: {
      metadata,
      spec: {
        clusterIP: "fd00::1",
        clusterIPs: ["fd00::1", "10.96.0.1"],
        ipFamilies: ["IPv6", "IPv4"],
      },
    },
  },
  {
    name: "given families are kept",
    given: { metadata, spec: { clusterIP: "10.96.0.1", ipFamilies: ["IPv6"] } },
    want: {
      metadata,
      spec: { clusterIP: "10.96.0.1", clusterIPs: ["10.96.0.1"], ipFamilies: ["IPv6"] },
    },
  },
  {
    name: "a missing cluster IP remains missing",
    given: { metadata, spec: { type: "ExternalName" } },
    want: { metadata, spec: { type: "ExternalName" } },
  },
  {
    name: "a slice port without a name is unnamed",
    kind: "endpointslices",
    given: { metadata, ports: [{ port: 80 }, { port: 81, name: "b" }, 7] },
    want: { metadata, ports: [{ port: 80, name: "" }, { port: 81, name: "b" }, 7] },
  },
  { name: "nonsense stays", given: 5, want: 5 },
  { name: "lists stay", given: [], want: [] },
  { name: "an object without metadata is kept", given: { spec: 1 }, want: { spec: 1 } },
];

describe("default values that an API server would set", () => {
  for (const { name, kind = "services", given, want } of cases) {
    it(name, () => assert.deepEqual(withDefaults(kind, given), want));
  }
});
