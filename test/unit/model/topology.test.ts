import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { EndpointRecord } from "../../../src/api/objects.ts";
import { endpointPortKey, mergeSlices } from "../../../src/model/endpoints.ts";
import type { ServicePort } from "../../../src/model/service-port.ts";
import { servicePortsOf } from "../../../src/model/service-ports.ts";
import { chooseEndpoints } from "../../../src/model/topology.ts";
import {
  endpointRecord,
  ip,
  localEndpoint,
  portRecord,
  serviceRecord,
  sliceRecord,
} from "../../support/records.ts";

const here = { nodeName: "node-1", zone: "z1" };
const terminating = { isReady: false, isServing: true, isTerminating: true };
const dead = { isReady: false, isServing: false, isTerminating: true };
const nodePort = { ports: [portRecord({ nodePort: 30080 })], type: "NodePort" } as const;

interface Case {
  readonly name: string;
  readonly service?: Parameters<typeof serviceRecord>[0];
  readonly endpoints: readonly EndpointRecord[];
  readonly zone?: string;
  readonly cluster: readonly string[];
  readonly local?: readonly string[];
  readonly hasUsable: boolean;
}

const a = "10.244.1.1";
const b = "10.244.2.2";
const c = "10.244.2.3";

const cases: readonly Case[] = [
  { name: "nothing without endpoints", endpoints: [], cluster: [], hasUsable: false },
  {
    name: "ready ones, but not unready ones",
    endpoints: [endpointRecord(a), endpointRecord(b, { isReady: false })],
    cluster: [a],
    hasUsable: true,
  },
  {
    name: "serving and terminating ones if none is ready",
    endpoints: [endpointRecord(a, terminating), endpointRecord(b, dead)],
    cluster: [a],
    hasUsable: true,
  },
  {
    name: "no terminating ones while another is ready",
    endpoints: [endpointRecord(a, terminating), endpointRecord(b)],
    cluster: [b],
    hasUsable: true,
  },
  {
    name: "those hinted for this zone",
    endpoints: [endpointRecord(a, { zoneHints: ["z1"] }), endpointRecord(b, { zoneHints: ["z2"] })],
    cluster: [a],
    hasUsable: true,
  },
  {
    name: "all if one ready endpoint lacks a hint",
    endpoints: [endpointRecord(a, { zoneHints: ["z1"] }), endpointRecord(b)],
    cluster: [a, b],
    hasUsable: true,
  },
  {
    name: "all if no hint names this zone",
    endpoints: [endpointRecord(a, { zoneHints: ["z2"] }), endpointRecord(b, { zoneHints: ["z2"] })],
    cluster: [a, b],
    hasUsable: true,
  },
  {
    name: "all if the node has no zone",
    zone: "",
    endpoints: [endpointRecord(a, { zoneHints: ["z1"] }), endpointRecord(b, { zoneHints: ["z2"] })],
    cluster: [a, b],
    hasUsable: true,
  },
  {
    name: "those hinted for this node before those of its zone",
    endpoints: [
      endpointRecord(a, { zoneHints: ["z1"], nodeHints: ["node-2"] }),
      endpointRecord(b, { zoneHints: ["z2"], nodeHints: ["node-1"] }),
    ],
    cluster: [b],
    hasUsable: true,
  },
  {
    name: "all if one ready endpoint lacks a node hint or has an empty one",
    endpoints: [
      endpointRecord(a, { nodeHints: ["node-1"] }),
      endpointRecord(b),
      endpointRecord(c, { nodeHints: [] }),
    ],
    cluster: [a, b, c],
    hasUsable: true,
  },
  {
    name: "all ready ones, ignoring hints of an unready endpoint",
    endpoints: [endpointRecord(a, { zoneHints: ["z1"] }), endpointRecord(b, { isReady: false })],
    cluster: [a],
    hasUsable: true,
  },
  {
    name: "only local ones for internal policy Local",
    service: { isInternalPolicyLocal: true },
    endpoints: [localEndpoint(a), endpointRecord(b)],
    cluster: [],
    local: [a],
    hasUsable: true,
  },
  {
    name: "none for internal policy Local without local ones, even if some are usable",
    service: { isInternalPolicyLocal: true },
    endpoints: [endpointRecord(b)],
    cluster: [],
    local: [],
    hasUsable: true,
  },
  {
    name: "none for internal policy Local if one remote endpoint is usable and one is not",
    service: { isInternalPolicyLocal: true },
    endpoints: [endpointRecord(b), endpointRecord(c, dead)],
    cluster: [],
    hasUsable: true,
  },
  {
    name: "none for internal policy Local if none is usable anywhere",
    service: { isInternalPolicyLocal: true },
    endpoints: [localEndpoint(a, dead), endpointRecord(b, dead)],
    cluster: [],
    hasUsable: false,
  },
  {
    name: "both lists for external policy Local with a node port",
    service: { ...nodePort, isExternalPolicyLocal: true },
    endpoints: [localEndpoint(a), endpointRecord(b)],
    cluster: [a, b],
    local: [a],
    hasUsable: true,
  },
  {
    name: "local terminating ones if no local one is ready",
    service: { ...nodePort, isExternalPolicyLocal: true },
    endpoints: [localEndpoint(a, terminating), endpointRecord(b), endpointRecord(c)],
    cluster: [b, c],
    local: [a],
    hasUsable: true,
  },
  {
    name: "all endpoints for external policy Local without an external address",
    service: { isExternalPolicyLocal: true },
    endpoints: [localEndpoint(a), endpointRecord(b)],
    cluster: [a, b],
    local: [],
    hasUsable: true,
  },
];

describe("chooseEndpoints uses", () => {
  for (const { name, service, endpoints, zone, cluster, local, hasUsable } of cases) {
    it(name, () => {
      const [port] = servicePortsOf(serviceRecord(service), "IPv4") as [ServicePort];
      const merged = mergeSlices([sliceRecord(endpoints)], "IPv4", here.nodeName);
      const chosen = chooseEndpoints(
        merged.get(endpointPortKey({ name: "http", protocol: "TCP" })) ?? [],
        port,
        {
          ...here,
          zone: zone ?? here.zone,
        },
      );
      assert.deepEqual(addresses(chosen.cluster), cluster);
      assert.deepEqual(addresses(chosen.local), local ?? []);
      assert.equal(chosen.hasUsable, hasUsable);
    });
  }
});

function addresses(endpoints: readonly { readonly address: string }[]): readonly string[] {
  return endpoints.map(({ address }) => address).sort((left, right) => (left < right ? -1 : 1));
}

describe("mergeSlices", () => {
  it("sorts endpoints by the text of address and port", () => {
    const merged = mergeSlices(
      [sliceRecord([endpointRecord("10.0.0.9"), endpointRecord("10.0.0.10")])],
      "IPv4",
      "node-1",
    );
    assert.deepEqual(
      merged.get(endpointPortKey({ name: "http", protocol: "TCP" }))?.map(({ key }) => key),
      ["10.0.0.10:8080", "10.0.0.9:8080"],
    );
  });

  it("keeps a ready endpoint if a terminating one with the same address follows", () => {
    const slices = [
      sliceRecord([endpointRecord(a)], { name: "default/a-1" }),
      sliceRecord([endpointRecord(a, terminating)], { name: "default/a-2" }),
    ];
    for (const order of [slices, slices.toReversed()]) {
      const [endpoint] =
        mergeSlices(order, "IPv4", "node-1").get(
          endpointPortKey({ name: "http", protocol: "TCP" }),
        ) ?? [];
      assert.equal(endpoint?.isReady, true);
    }
  });

  it("replaces a terminating endpoint with a later one that is not terminating", () => {
    const slices = [
      sliceRecord([endpointRecord(a, terminating)], { name: "default/a-1" }),
      sliceRecord([endpointRecord(a)], { name: "default/a-2" }),
    ];
    const [endpoint] =
      mergeSlices(slices, "IPv4", "node-1").get(
        endpointPortKey({ name: "http", protocol: "TCP" }),
      ) ?? [];
    assert.equal(endpoint?.isReady, true);
  });

  it("gives each port of each slice its own number and omits the other family", () => {
    const slices = [
      sliceRecord([endpointRecord(a)], { name: "default/a-1" }),
      sliceRecord([endpointRecord(b)], {
        name: "default/a-2",
        ports: [{ name: "http", protocol: "TCP", port: 9090 }],
      }),
      sliceRecord([endpointRecord("fd00::1")], { name: "default/a-3", family: "IPv6" }),
    ];
    const merged = mergeSlices(slices, "IPv4", "node-1");
    assert.deepEqual(
      merged.get(endpointPortKey({ name: "http", protocol: "TCP" }))?.map(({ key }) => key),
      [`${a}:8080`, `${b}:9090`],
    );
    assert.equal(ip("fd00::1").includes(":"), true);
  });
});
