import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { EndpointSliceRecord, ServiceRecord } from "../../../../src/api/objects.ts";
import { type RefusalReason, refusalReasons } from "../../../../src/api/refusals.ts";
import type { ResourceKind } from "../../../../src/api/source.ts";
import { parseIpAddress } from "../../../../src/base/ip.ts";
import { parseJson } from "../../../../src/base/parse-json.ts";
import fc from "../../../support/fast-check.ts";
import { endpoint, endpointSlice, node, service, servicePort } from "../../../support/objects.ts";
import { type Decoding, decode } from "./decoding.ts";

const kinds: readonly ResourceKind[] = ["services", "endpointslices", "nodes"];

/** Valid objects with every field that a decoder reads. */
const validObjects = {
  services: service({
    type: "LoadBalancer",
    clusterIps: ["10.96.0.10", "fd00::10"],
    ports: [servicePort({ nodePort: 30080 }), servicePort({ name: "dns", protocol: "UDP" })],
    spec: {
      externalIPs: ["192.0.2.1"],
      loadBalancerSourceRanges: ["10.0.0.0/8"],
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
      externalTrafficPolicy: "Local",
      healthCheckNodePort: 31000,
    },
    status: { loadBalancer: { ingress: [{ ip: "192.0.2.2", ipMode: "VIP" }] } },
  }),
  endpointslices: endpointSlice({
    endpoints: [
      endpoint("10.244.1.10", { nodeName: "node-1", hints: { forZones: [{ name: "z1" }] } }),
      "10.244.1.11",
    ],
    metadata: {
      annotations: {
        "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z",
      },
    },
  }),
  nodes: node({ spec: { taints: [{ key: "x" }] } }),
} as const;

/** Checks the properties of decoded objects that later code relies on. */
function checkDecoding(kind: ResourceKind, { record, refusals }: Decoding<unknown>): void {
  for (const refused of refusals) {
    assert.ok(refused.reason in refusalReasons, refused.reason);
    assert.equal(refused.kind, kind);
    assert.doesNotMatch(refused.message, /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u);
    assert.ok(refused.message.length < 700, `long message: ${refused.message.length}`);
  }
  if (record === undefined) return;
  if (kind === "services") checkService(record as ServiceRecord);
  if (kind === "endpointslices") checkSlice(record as EndpointSliceRecord);
}

function checkService(record: ServiceRecord): void {
  assert.match(record.name, /^[\w.-]+\/[\w.-]+$/);
  assert.ok(record.clusterIps.length >= 1 && record.clusterIps.length <= 2);
  assert.ok(record.ports.length >= 1);
  for (const address of [...record.clusterIps, ...record.externalIps, ...record.loadBalancerIps]) {
    assert.equal(parseIpAddress(address), address);
  }
  for (const { port, nodePort, name } of record.ports) {
    assert.ok(Number.isInteger(port) && port >= 1 && port <= 65_535);
    assert.ok(Number.isInteger(nodePort) && nodePort >= 0 && nodePort <= 65_535);
    assert.match(name, /^[\w.-]*$/);
  }
  assert.ok(Number.isInteger(record.affinitySeconds) && record.affinitySeconds <= 86_400);
}

function checkSlice(record: EndpointSliceRecord): void {
  assert.match(record.service, /^[\w.-]+\/[\w.-]+$/);
  for (const { address } of record.endpoints) assert.equal(parseIpAddress(address), address);
  for (const { port } of record.ports) assert.ok(port >= 1 && port <= 65_535);
}

/** Paths to every node of a JSON tree, as lists of keys. */
function pathsOf(value: unknown, path: readonly string[] = []): readonly (readonly string[])[] {
  if (typeof value !== "object" || value === null) return [path];
  const below = Object.entries(value).flatMap(([key, part]) => pathsOf(part, [...path, key]));
  return [path, ...below];
}

/** A copy of `value` in which `path` leads to `replacement`. */
function replaced(value: unknown, path: readonly string[], replacement: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return replacement;
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<
    string,
    unknown
  >;
  copy[key] = replaced(copy[key], rest, replacement);
  return copy;
}

const nasty: fc.Arbitrary<unknown> = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom<unknown>("", " ", "None", "0", "::", "10.0.0.1", "1.2.3.4/0", -0, 1e308, 65_536),
  fc.string({ unit: "binary", maxLength: 300 }),
);

describe("decoding", () => {
  it("never throws for arbitrary JSON", () => {
    fc.assert(
      fc.property(fc.constantFrom(...kinds), fc.jsonValue(), (kind, value) => {
        checkDecoding(kind, decode(kind, value));
      }),
    );
  });

  it("survives any replacement of any field in a valid object", () => {
    for (const kind of kinds) {
      const valid = validObjects[kind];
      const paths = pathsOf(valid);
      const mutation = fc.tuple(fc.constantFrom(...paths), nasty);
      fc.assert(
        fc.property(fc.array(mutation, { minLength: 1, maxLength: 3 }), (mutations) => {
          const mutant = mutations.reduce<unknown>(
            (object, [path, value]) =>
              pathExists(object, path) ? replaced(object, path, value) : object,
            valid,
          );
          checkDecoding(kind, decode(kind, mutant));
        }),
        { numRuns: 500 },
      );
    }
  });

  it("accepts the valid objects in this file without rejections", () => {
    for (const kind of kinds) {
      const { record, reasons } = decode(kind, validObjects[kind]);
      assert.notEqual(record, undefined);
      assert.deepEqual(reasons, []);
    }
  });

  it("ignores inherited names", () => {
    const text = '{"metadata":{"name":"a","namespace":"b","labels":{"__proto__":{"x":1}}},"spec":';
    const spec = '{"__proto__":{"clusterIP":"10.0.0.1","ports":[{"port":80}]}}}';
    assert.equal(decode("services", parseJson(text + spec)).record, undefined);
    assert.equal(Object.hasOwn(Object.prototype, "x"), false);
    const { reasons } = decode("services", service({ type: "constructor", spec: {} }));
    assert.deepEqual(reasons, ["spec.type unknown-service-type"]);
  });

  it("ignores inherited fields", () => {
    const { metadata, spec } = service();
    assert.equal(decode("services", Object.create({ metadata, spec })).record, undefined);
    assert.deepEqual(
      decode("services", { metadata, spec: Object.create(spec as object) }).record,
      undefined,
    );
  });

  it("accepts huge annotations and thousands of fields", () => {
    const annotations = { note: "x".repeat(10_000_000) };
    const ports = Array.from({ length: 5000 }, (_, index) =>
      servicePort({ name: `p${index}`, port: index + 1 }),
    );
    const { record, reasons } = decode("services", service({ metadata: { annotations }, ports }));
    assert.equal(record?.ports.length, 5000);
    assert.deepEqual(reasons, []);
  });

  it("treats holes in a list as absent values", () => {
    const ports = [servicePort()];
    ports.length = 3;
    const { record, reasons } = decode("services", service({ ports }));
    assert.equal(record?.ports.length, 1);
    assert.deepEqual(reasons, ["spec.ports[1] not-an-object", "spec.ports[2] not-an-object"]);
  });

  it("has a message for every reason", () => {
    for (const reason of Object.keys(refusalReasons) as RefusalReason[]) {
      assert.match(refusalReasons[reason], /^(is|cannot|it has|has|does not|duplicates) .*[^.]$/);
    }
  });
});

function pathExists(value: unknown, path: readonly string[]): boolean {
  if (path.length === 0) return true;
  const [key, ...rest] = path as [string, ...string[]];
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return false;
  return pathExists((value as Record<string, unknown>)[key], rest);
}
