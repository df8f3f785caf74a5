/**
 * Tests objects that a correct API server would reject, next to a valid Service. Checks what is served for each, and
 * that the valid Service is unaffected. Covers the path from the decoders through the whole daemon to a fake kernel.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseJson } from "../../../src/base/parse-json.ts";
import { largeServices, largeSlices } from "../../fuzz/large-objects.ts";
import { FakeNode } from "../../support/fake-node.ts";
import type { NamedObject } from "../../support/memory-source.ts";
import {
  type ApiObject,
  endpointSlice,
  node,
  type ServiceOptions,
  service,
  servicePort,
} from "../../support/objects.ts";

const good = [
  node(),
  service({ name: "good", clusterIps: ["10.96.0.20"] }),
  endpointSlice({ service: "good", endpoints: ["10.244.9.1"] }),
];
const goodLines = ["-A -t 10.96.0.20:80 -s rr", "-a -t 10.96.0.20:80 -r 10.244.9.1:8080 -m -w 1"];

/** Returns the lines of `ipvsadm -Sn` that these objects add to those of the valid Service. */
async function added(...objects: readonly unknown[]): Promise<readonly string[]> {
  const fake = new FakeNode({ "kube-ipvs-relist-guard-percent": "0" });
  const names = (given: readonly unknown[]): readonly NamedObject[] => given as NamedObject[];
  fake.source.apply(...names(good), ...names(objects));
  await fake.start();
  await fake.settle();
  const lines = ((await fake.state()).ipvs ?? "").split("\n").filter((line) => line !== "");
  await fake.stop();
  for (const line of goodLines) assert.ok(lines.includes(line), lines.join("\n"));
  return lines.filter((line) => !goodLines.includes(line));
}

const served = ["-A -t 10.96.0.10:80 -s rr", "-a -t 10.96.0.10:80 -r 10.244.1.10:8080 -m -w 1"];
const withoutEndpoints = ["-A -t 10.96.0.10:80 -s rr"];

function withKeys(object: ApiObject, part: "metadata" | "spec", text: string): unknown {
  const json = JSON.stringify(object);
  return parseJson(json.replace(`"${part}":{`, () => `"${part}":{${text},`));
}

describe("a Service", () => {
  const cases: readonly (readonly [string, unknown, readonly string[]])[] = [
    ["with an annotation of 10 MB", largeServices[0], served],
    ["with 5,000 annotations", largeServices[1], served],
    ["with an annotation nested 100,000 deep", largeServices[2], served],
    ["with an unknown field nested 100,000 deep", largeServices[3], served],
    ["whose ports are nested 100,000 deep", largeServices[4], []],
    ["whose status is nested 100,000 deep", largeServices[6], served],
    [
      "with __proto__ in its spec, which contains another address",
      withKeys(
        service(),
        "spec",
        `"__proto__":{"clusterIP":"10.96.0.66","externalIPs":["192.0.2.66"]}`,
      ),
      served,
    ],
    [
      "with constructor and prototype in its metadata",
      withKeys(
        service(),
        "metadata",
        `"constructor":{"prototype":{"polluted":1}},"__proto__":{"x":1}`,
      ),
      served,
    ],
  ];
  for (const [name, object, want] of cases) {
    it(`${name}: ${want.length === 0 ? "not served" : "served"}`, async () => {
      assert.deepEqual(await added(object, endpointSlice()), want);
      assert.ok(!("polluted" in {}) && !("clusterIP" in {}));
    });
  }
});

describe("an almost valid address, port or protocol", () => {
  const odd: readonly (readonly [string, ServiceOptions, readonly string[]])[] = [
    ["full-width digits", { clusterIps: ["１０.９６.０.１０"] }, []],
    ["an Arabic digit", { clusterIps: ["10.96.0.١"] }, []],
    // Parsed as by Kubernetes' ParseIPSloppy: decimal, never octal.
    ["leading zeros", { clusterIps: ["010.096.000.010"] }, served],
    ["an IPv4-mapped IPv6 address", { clusterIps: ["::ffff:10.96.0.10"] }, []],
    ["an invisible space behind the address", { clusterIps: ["10.96.0.10\u200b"] }, []],
    ["an address with a zone", { clusterIps: ["fe80::1%eth0"] }, []],
    ["a port as text", { ports: [servicePort({ port: "80" })] }, []],
    ["a port with a fraction", { ports: [servicePort({ port: 80.5 })] }, []],
    ["a port above 16 bits, which would be 80", { ports: [servicePort({ port: 65_616 })] }, []],
    ["a protocol in Cyrillic letters", { ports: [servicePort({ protocol: "ТСР" })] }, []],
    ["a protocol in lower case", { ports: [servicePort({ protocol: "tcp" })] }, []],
    [
      "an external IP with a prefix, with a port, and unspecified",
      { spec: { externalIPs: ["192.0.2.1/32", "192.0.2.1:80", "0.0.0.0"] } },
      served,
    ],
    [
      "an IPv4-mapped external IP",
      { spec: { externalIPs: ["::ffff:192.0.2.1"] } },
      // This is the IPv4 address, as upstream. Nothing is served over IPv6.
      [...served, ...served.map((line) => line.replace("10.96.0.10", "192.0.2.1"))].toSorted(),
    ],
    [
      "a node port as text",
      { type: "NodePort", ports: [servicePort({ nodePort: "30080" })] },
      served,
    ],
  ];
  for (const [name, options, want] of odd) {
    it(`${name}: ${want.length === 0 ? "nothing is served" : "the rest is served"}`, async () => {
      assert.deepEqual(await added(service(options), endpointSlice()), want);
    });
  }

  it("a name with a similar-looking letter is another Service", async () => {
    const cyrillic = endpointSlice({ service: "w\u0435b", endpoints: ["10.244.6.6"] });
    assert.deepEqual(await added(service(), cyrillic), withoutEndpoints);
  });
});

describe("an EndpointSlice", () => {
  it("with 5,000 addresses is used completely", async () => {
    const lines = await added(service(), largeSlices[0]);
    assert.equal(lines.length, 1 + 5_000);
  });

  it("with 5,000 addresses in one endpoint uses the first, as kube-proxy does", async () => {
    const lines = await added(service(), largeSlices[3]);
    assert.deepEqual(lines, [
      "-A -t 10.96.0.10:80 -s rr",
      "-a -t 10.96.0.10:80 -r 10.244.0.1:8080 -m -w 1",
    ]);
  });

  const empty: readonly (readonly [string, unknown])[] = [
    ["whose endpoints are nested 100,000 deep", largeSlices[1]],
    ["whose addresses are nested 100,000 deep", largeSlices[2]],
    ["of IPv4-mapped IPv6 addresses", endpointSlice({ endpoints: ["::ffff:10.244.1.10"] })],
    [
      "with loopback, multicast, broadcast and unspecified addresses",
      endpointSlice({ endpoints: ["127.0.0.1", "224.0.0.5", "255.255.255.255", "0.0.0.0"] }),
    ],
    [
      "whose port is text",
      endpointSlice({ ports: [{ name: "http", protocol: "TCP", port: "8080" }] }),
    ],
  ];
  for (const [name, slice] of empty) {
    it(`${name}: no endpoint`, async () =>
      assert.deepEqual(await added(service(), slice), withoutEndpoints));
  }
});
