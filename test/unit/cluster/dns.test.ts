import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { answerTo } from "../../cluster/dns-message.ts";
import { recordsOf } from "../../cluster/dns-records.ts";

const a = 1;
const aaaa = 28;

/** A query with ID 0x1234 and recursion desired. */
function query(name: string, type: number): Buffer {
  const labels = name.split(".").map((label) => String.fromCharCode(label.length) + label);
  const header = Buffer.from("1234 0100 0001 0000 0000 0000".replaceAll(" ", ""), "hex");
  return Buffer.concat([
    header,
    Buffer.from(`${labels.join("")}\0`, "latin1"),
    Buffer.from([0, type, 0, 1]),
  ]);
}

const service = (name: string, spec: object): object => ({
  metadata: { name, namespace: "ns" },
  spec,
});
const records = recordsOf(
  [
    service("web", { clusterIPs: ["10.96.0.7"] }),
    service("dual", { clusterIPs: ["10.96.0.8", "fd00:10:96::1f"] }),
    service("headless", { clusterIPs: ["None"] }),
    service("alias", { type: "ExternalName", externalName: "www.example" }),
  ] as Parameters<typeof recordsOf>[0],
  [
    {
      metadata: { namespace: "ns", labels: { "kubernetes.io/service-name": "headless" } },
      endpoints: [
        { addresses: ["10.244.1.2"], hostname: "pod-0" },
        { addresses: ["10.244.1.3"], conditions: { ready: false } },
      ],
    },
  ],
);

describe("DNS records", () => {
  it("are addresses of Services, of ready endpoints, and aliases", () => {
    assert.deepEqual(Object.fromEntries(records), {
      "web.ns.svc.cluster.local": ["10.96.0.7"],
      "dual.ns.svc.cluster.local": ["10.96.0.8", "fd00:10:96::1f"],
      "headless.ns.svc.cluster.local": ["10.244.1.2"],
      "pod-0.headless.ns.svc.cluster.local": ["10.244.1.2"],
      "alias.ns.svc.cluster.local": ["www.example"],
    });
  });
});

describe("A DNS answer", () => {
  it("contains the address, regardless of the name's case", () => {
    const asked = query("WEB.ns.svc.cluster.local", a);
    const head = "1234858000010001 00000000".replace(" ", "");
    assert.equal(
      answerTo(asked, records).toString("hex"),
      `${head}${asked.subarray(12).toString("hex")}c00c00010001000000050004${"0a600007"}`,
    );
  });

  it("contains the address of the query's family", () => {
    const asked = query("dual.ns.svc.cluster.local", aaaa);
    assert.equal(
      answerTo(asked, records).subarray(asked.length).toString("hex"),
      "c00c001c0001000000050010fd00001000960000000000000000001f",
    );
  });

  it("contains an alias for every type", () => {
    const answer = answerTo(query("alias.ns.svc.cluster.local", aaaa), records);
    assert.ok(answer.toString("latin1").endsWith("\0\r\u0003www\u0007example\0"));
  });

  it("is empty if the name has no address of that type", () => {
    const answer = answerTo(query("web.ns.svc.cluster.local", aaaa), records);
    assert.deepEqual([answer.readUInt16BE(2), answer.readUInt16BE(6)], [0x8580, 0]);
  });

  it("reports that a name does not exist", () => {
    assert.equal(answerTo(query("www.example", a), records).readUInt16BE(2), 0x8583);
  });
});
