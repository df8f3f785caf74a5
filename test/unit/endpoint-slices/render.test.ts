import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SliceContent, StoredSlice } from "../../../src/endpoint-slices/objects.ts";
import { sliceObject, slicePatch } from "../../../src/endpoint-slices/render.ts";
import { ip } from "./slices.ts";

const bare = {
  pod: "default/web-0",
  podUid: "",
  address: ip("10.0.0.2"),
  nodeName: "",
  hostname: "",
  isReady: true,
  isServing: true,
  isTerminating: false,
};
const content: SliceContent = {
  labels: { "kubernetes.io/service-name": "web", tier: "front" },
  ownerUid: "service-uid",
  ports: [
    { name: "http", protocol: "TCP", port: 8080, appProtocol: "" },
    { name: "grpc", protocol: "TCP", port: 9090, appProtocol: "h2c" },
  ],
  endpoints: [
    bare,
    {
      ...bare,
      podUid: "pod-uid",
      nodeName: "node-1",
      hostname: "web-1",
      isReady: false,
      isTerminating: true,
      zone: "z1",
      zoneHints: ["z1"],
      nodeHints: ["node-1"],
    },
  ],
};

const ownerReferences = [
  {
    ...{ apiVersion: "v1", kind: "Service", name: "web", uid: "service-uid" },
    ...{ controller: true, blockOwnerDeletion: true },
  },
];
const written = {
  ports: [
    { name: "http", protocol: "TCP", port: 8080 },
    { name: "grpc", protocol: "TCP", port: 9090, appProtocol: "h2c" },
  ],
  endpoints: [
    {
      addresses: ["10.0.0.2"],
      conditions: { ready: true, serving: true, terminating: false },
      targetRef: { kind: "Pod", namespace: "default", name: "web-0" },
    },
    {
      addresses: ["10.0.0.2"],
      conditions: { ready: false, serving: true, terminating: true },
      hostname: "web-1",
      nodeName: "node-1",
      zone: "z1",
      hints: { forZones: [{ name: "z1" }], forNodes: [{ name: "node-1" }] },
      targetRef: { kind: "Pod", namespace: "default", name: "web-0", uid: "pod-uid" },
    },
  ],
};

describe("an EndpointSlice for the API server", () => {
  it("has its owner, and no unknown fields", () => {
    const slice = { ...content, name: "default/web-ipv4-0", service: "default/web" } as const;
    assert.deepEqual(sliceObject({ ...slice, family: "IPv4" }), {
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: {
        ...{ name: "web-ipv4-0", namespace: "default" },
        labels: content.labels,
        ownerReferences,
      },
      addressType: "IPv4",
      ...written,
    });
  });

  it("is patched at the version that was read, and loses labels that the Service no longer has", () => {
    const stored: StoredSlice = {
      ...content,
      labels: { ...content.labels, old: "x" },
      name: "default/web-ipv4-0",
      service: "default/web",
      managedBy: "kube-ipvs-endpoint-controller",
      hasEndpoints: true,
      uid: "slice-uid",
      resourceVersion: "42",
    };
    assert.deepEqual(slicePatch({ stored, content }), {
      metadata: {
        resourceVersion: "42",
        labels: { ...content.labels, old: null },
        ownerReferences,
      },
      ...written,
    });
  });
});
