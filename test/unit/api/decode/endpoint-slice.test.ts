import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { EndpointRecord, EndpointSliceRecord } from "../../../../src/api/objects.ts";
import type { IpAddress } from "../../../../src/base/ip.ts";
import { type ApiObject, endpoint, endpointSlice, slicePort } from "../../../support/objects.ts";
import { decode } from "./decoding.ts";

const triggerTime = "endpoints.kubernetes.io/last-change-trigger-time";
const ready: EndpointRecord = {
  address: "10.244.1.10" as IpAddress,
  nodeName: "",
  isReady: true,
  isServing: true,
  isTerminating: false,
};
const webA: EndpointSliceRecord = {
  name: "default/web-a",
  service: "default/web",
  family: "IPv4",
  ports: [{ name: "http", protocol: "TCP", port: 8080 }],
  endpoints: [ready],
};

function withEndpoint(overrides: Record<string, unknown>): ApiObject {
  return endpointSlice({ endpoints: [endpoint("10.244.1.10", overrides)] });
}

describe("an EndpointSlice", () => {
  const cases: readonly {
    readonly name: string;
    readonly given: ApiObject;
    readonly want: Partial<EndpointSliceRecord>;
  }[] = [
    { name: "is reduced to a record", given: endpointSlice(), want: {} },
    {
      name: "may have a node's address or any pod's: pods in the host network have the former",
      given: endpointSlice({ endpoints: ["192.168.10.11", "10.244.9.9"] }),
      want: {
        endpoints: [
          { ...ready, address: "192.168.10.11" as IpAddress },
          { ...ready, address: "10.244.9.9" as IpAddress },
        ],
      },
    },
    {
      name: "may be IPv6, with addresses that become canonical",
      given: endpointSlice({ endpoints: ["FD00:0::0a"] }),
      want: { family: "IPv6", endpoints: [{ ...ready, address: "fd00::a" as IpAddress }] },
    },
    {
      name: "treats absent and null conditions as ready and serving",
      given: withEndpoint({ conditions: { ready: null } }),
      want: {},
    },
    {
      name: "treats an endpoint without conditions as ready and serving",
      given: withEndpoint({ conditions: undefined }),
      want: {},
    },
    {
      name: "recognizes terminating endpoints",
      given: withEndpoint({ conditions: { ready: false, serving: true, terminating: true } }),
      want: { endpoints: [{ ...ready, isReady: false, isTerminating: true }] },
    },
    {
      name: "has an endpoint's node and hints",
      given: withEndpoint({
        nodeName: "node-1",
        hints: { forZones: [{ name: "z1" }, { name: "z1" }], forNodes: [{ name: "node-1" }] },
      }),
      want: {
        endpoints: [{ ...ready, nodeName: "node-1", zoneHints: ["z1"], nodeHints: ["node-1"] }],
      },
    },
    {
      name: "uses only an endpoint's first address",
      given: withEndpoint({ addresses: ["10.244.1.10", "not-an-address"] }),
      want: {},
    },
    {
      name: "may have no endpoints",
      given: endpointSlice({ endpoints: [], addressType: "IPv4" }),
      want: { endpoints: [] },
    },
    {
      name: "may have an unnamed port",
      given: endpointSlice({ ports: [slicePort({ name: "", protocol: undefined })] }),
      want: { ports: [{ name: "", protocol: "TCP", port: 8080 }] },
    },
    {
      name: "has its trigger time to the millisecond",
      given: endpointSlice({
        metadata: { annotations: { [triggerTime]: "2026-01-01T00:00:00.123456789Z" } },
      }),
      want: { triggeredAtMs: 1_767_225_600_123 },
    },
  ];
  for (const { name, given, want } of cases) {
    it(name, () => {
      const { record, reasons } = decode("endpointslices", given);
      assert.deepEqual(record, { ...webA, ...want });
      assert.deepEqual(reasons, []);
    });
  }

  it("of a headless Service is skipped without a rejection", () => {
    const given = endpointSlice({ labels: { "service.kubernetes.io/headless": "" } });
    assert.deepEqual(decode("endpointslices", given), {
      record: undefined,
      refusals: [],
      reasons: [],
    });
  });
});

describe("an invalid field of an EndpointSlice is ignored, and the rest is used", () => {
  const good = slicePort();
  const cases: readonly {
    readonly name: string;
    readonly given: ApiObject;
    readonly want?: Partial<EndpointSliceRecord>;
    readonly reasons: readonly string[];
  }[] = [
    {
      name: "a port without a number",
      given: endpointSlice({ ports: [good, { name: "x", protocol: "TCP" }] }),
      reasons: ["ports[1].port missing-port-number"],
    },
    {
      name: "port 0 and null",
      given: endpointSlice({ ports: [good, slicePort({ port: 0 }), slicePort({ port: null })] }),
      reasons: ["ports[1].port missing-port-number", "ports[2].port missing-port-number"],
    },
    {
      name: "an invalid port number",
      given: endpointSlice({ ports: [good, slicePort({ port: "8080" })] }),
      reasons: ["ports[1].port invalid-port"],
    },
    {
      name: "a port without a name",
      given: endpointSlice({ ports: [good, slicePort({ name: null })] }),
      reasons: ["ports[1].name missing-port-name"],
    },
    {
      name: "an unknown protocol",
      given: endpointSlice({ ports: [good, slicePort({ protocol: "tcp" })] }),
      reasons: ["ports[1].protocol unknown-protocol"],
    },
    {
      name: "an endpoint without an address",
      given: endpointSlice({ endpoints: ["10.244.1.10", { addresses: [] }, {}] }),
      reasons: [
        "endpoints[1].addresses[0] missing-endpoint-address",
        "endpoints[2].addresses[0] missing-endpoint-address",
      ],
    },
    {
      name: "an endpoint of the other family, with an invalid address, with loopback",
      given: endpointSlice({ endpoints: ["10.244.1.10", "fd00::1", "x.example", "127.0.0.1"] }),
      reasons: [
        "endpoints[1].addresses[0] invalid-endpoint-address",
        "endpoints[2].addresses[0] invalid-endpoint-address",
        "endpoints[3].addresses[0] special-address",
      ],
    },
    {
      name: "a multicast, unspecified and link-local endpoint, such as a cloud's metadata",
      given: endpointSlice({
        endpoints: ["10.244.1.10", "224.0.0.1", "0.0.0.0", "169.254.169.254", "255.255.255.255"],
      }),
      reasons: [
        "endpoints[1].addresses[0] special-address",
        "endpoints[2].addresses[0] special-address",
        "endpoints[3].addresses[0] link-local-endpoint",
        "endpoints[4].addresses[0] special-address",
      ],
    },
    {
      name: "an endpoint whose condition is not a boolean",
      given: endpointSlice({
        endpoints: ["10.244.1.10", endpoint("10.244.1.11", { conditions: { ready: "true" } })],
      }),
      reasons: ["endpoints[1].conditions.ready invalid-condition"],
    },
    {
      name: "a node name and a hint",
      given: withEndpoint({ nodeName: "a\nb", hints: { forZones: [{ name: 5 }, { name: "z1" }] } }),
      want: { endpoints: [{ ...ready, zoneHints: ["z1"] }] },
      reasons: [
        "endpoints[0].hints.forZones[0].name invalid-label",
        "endpoints[0].nodeName invalid-label",
      ],
    },
    {
      name: "a trigger time",
      given: endpointSlice({ metadata: { annotations: { [triggerTime]: "now" } } }),
      reasons: [`metadata.annotations[${triggerTime}] invalid-trigger-time`],
    },
  ];
  for (const { name, given, want, reasons } of cases) {
    it(name, () => {
      const decoding = decode("endpointslices", given);
      assert.deepEqual(decoding.record, { ...webA, ...want });
      assert.deepEqual(decoding.reasons, reasons);
    });
  }
});

describe("an unusable EndpointSlice is ignored completely", () => {
  const cases: readonly {
    readonly name: string;
    readonly given: ApiObject;
    readonly reasons: readonly string[];
  }[] = [
    {
      name: "with host names",
      given: endpointSlice({ addressType: "FQDN", endpoints: ["x.example"] }),
      reasons: ["addressType unsupported-address-type"],
    },
    {
      name: "without its Service label",
      given: endpointSlice({ metadata: { labels: {} } }),
      reasons: ["metadata.labels missing-service-label"],
    },
    {
      name: "with a label that cannot be a Service name",
      given: endpointSlice({ metadata: { labels: { "kubernetes.io/service-name": "a/b" } } }),
      reasons: ["metadata.labels[kubernetes.io/service-name] invalid-service-label"],
    },
    {
      name: "with an invalid name",
      given: endpointSlice({ service: "a/b" }),
      reasons: ["metadata.name invalid-name"],
    },
  ];
  for (const { name, given, reasons } of cases) {
    it(name, () => {
      const decoding = decode("endpointslices", given);
      assert.equal(decoding.record, undefined);
      assert.deepEqual(decoding.reasons, reasons);
    });
  }
});
