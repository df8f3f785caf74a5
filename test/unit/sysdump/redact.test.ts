import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { apiVersion } from "../../../src/answer/answers.ts";
import { parseCidr, parseIpAddress } from "../../../src/base/ip.ts";
import { examine } from "../../../src/doctor/examine.ts";
import { collect } from "../../../src/sysdump/collect.ts";
import { namesIn, namesInComments } from "../../../src/sysdump/names.ts";
import { Redactor } from "../../../src/sysdump/redact.ts";
import { redactable, redacted } from "../../../src/sysdump/sysdump.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { addressesWith, ip, known, nodeWith } from "../doctor/node.ts";

const redactor = new Redactor(new Uint8Array(32).fill(7), ["shop", "shop-eu", "web", "default"]);

function prefixOf(one: string, other: string): number {
  const bits = (text: string): string =>
    text
      .split(".")
      .map((part) => Number(part).toString(2).padStart(8, "0"))
      .join("");
  const [first, second] = [bits(one), bits(other)];
  const length = [...first].findIndex((bit, index) => bit !== second[index]);
  return length < 0 ? 32 : length;
}

describe("redaction", () => {
  it("replaces addresses consistently, with the same common prefixes", () => {
    const given = ["10.244.1.7", "10.244.1.9", "10.244.200.1", "192.168.1.1"];
    const replaced = given.map((address) => redactor.text(address));
    for (const [index, address] of given.entries()) {
      assert.notEqual(replaced[index], address);
      assert.equal(redactor.text(`-> ${address}:8080 weight`), `-> ${replaced[index]}:8080 weight`);
      for (const [other, another] of given.entries()) {
        const lengths = [
          prefixOf(address, another),
          prefixOf(replaced[index] ?? "", replaced[other] ?? ""),
        ];
        assert.equal(lengths[0], lengths[1]);
      }
    }
  });

  it("keeps networks valid, and addresses within them", () => {
    const network = parseCidr(redactor.text("10.244.0.0/16"));
    assert.equal(network?.prefixLength, 16);
    const [first, second] = network?.address.split(".") ?? [];
    assert.ok(redactor.text("10.244.1.7").startsWith(`${first}.${second}.`));
  });

  it("replaces IPv6 addresses in every notation, and hardware addresses", () => {
    const text = redactor.text(
      "[fd00:244::7]:80 fd00:244::7,tcp:80 fd00:244::/32 02:42:ac:11:00:02",
    );
    const [first = "", second = "", network = "", hardware] = text.split(" ");
    assert.doesNotMatch(text, /fd00|42:ac/);
    assert.equal(first, `[${second.split(",")[0]}]:80`);
    assert.notEqual(parseIpAddress(second.split(",")[0] ?? ""), undefined);
    assert.notEqual(parseCidr(network), undefined);
    assert.equal(hardware, "00:00:00:00:00:00");
  });

  it("replaces addresses next to colons and underscores, and IPv4 addresses within IPv6 addresses", () => {
    const [address = ""] = redactor.text("10.7.8.9").split(" ");
    for (const text of ["ip:*", "add:*", "ip=x::*:eth0", "net_*_24", "-> *.", "*-*"]) {
      const given = text.replaceAll("*", "10.7.8.9");
      assert.equal(redactor.text(given), text.replaceAll("*", address));
    }
    assert.equal(redactor.text("::ffff:10.7.8.9"), address);
    for (const text of ["64:ff9b::10.7.8.9/96", "1:2:3:4:5:6:10.7.8.9"]) {
      assert.doesNotMatch(redactor.text(text), /[.]/, text);
    }
  });

  it("keeps loopback and unspecified addresses, versions and times", () => {
    for (const text of [
      "127.0.0.1:10249",
      "0.0.0.0/0",
      "[::]:80",
      "::1/128",
      "v1.36.2",
      "17:52:49",
      "6.1.0-13",
      "nat::x",
    ])
      assert.equal(redactor.text(text), text);
  });

  it("replaces whole names only, and keeps names that every cluster has", () => {
    assert.equal(
      redactor.text("shop/web:http shop-eu/web default/web webhook x-web workshop"),
      "name-1/name-3:http name-2/name-3 default/name-3 webhook x-web workshop",
    );
  });

  it("replaces the longest names in domain names, but no numbers", () => {
    const names = new Redactor(new Uint8Array(32), ["web", "n1.example.com", "example", "10"]);
    assert.equal(
      names.text("web.example.svc x.n1.example.com:80 10/web 127.0.0.10 web."),
      "name-1.name-3.svc x.name-2:80 10/name-1 127.0.0.10 name-1.",
    );
  });

  it("replaces names and addresses of a large node quickly", () => {
    const names = Array.from({ length: 10_000 }, (_, index) => `web-${index}`);
    const lines = names.map((name, index) => `${name} 10.${index >> 8}.${index & 255}.1:80`);
    const many = new Redactor(new Uint8Array(32), names);
    const startMs = performance.now();
    assert.doesNotMatch(many.text(lines.join("\n")), /web-/);
    const elapsedMs = performance.now() - startMs;
    assert.ok(elapsedMs < 10_000, `${elapsedMs} ms`);
  });

  it("finds names in answers", () => {
    const answers = [
      { items: [{ namespace: "a", name: "b", endpoints: [{ node: "c" }] }] },
      { node: { name: "d" }, source: { server: "https://api.example.com:6443" } },
      { conflicts: [{ service: "e/f:http" }], changes: [{ services: ["g/h"], kind: "x" }] },
      { source: { server: "10.0.0.1:6443" } },
      { invalidObjects: [{ kind: "services", subject: "i/j" }], changes: [{ subject: "x y" }] },
      {
        invalidObjects: [
          { kind: "nodes", subject: "k" },
          { kind: "manifest", subject: "l" },
        ],
      },
    ];
    assert.deepEqual([...namesIn(answers)].filter((name) => name !== "").toSorted(), [
      "a",
      "api.example.com",
      "b",
      "c",
      "d",
      "e",
      "f",
      "g",
      "h",
      "i",
      "j",
      "k",
    ]);
  });

  it("finds names in the comments of rules", () => {
    const saved =
      '-A KUBE-SERVICES -m comment --comment "a/b:http cluster IP" -j KUBE-SVC-X\n' +
      "-A KUBE-NODEPORTS -m comment --comment c/d -j KUBE-EXT-X\n" +
      '-A KUBE-EXT-X -m comment --comment "pod traffic for e/f external destinations"\n' +
      "-A FORWARD -s 10.0.0.0/8 -j x/y\n";
    const json = JSON.stringify({ text: 'comment "g/h -> 10.0.0.1:80" jump x/y' });
    assert.deepEqual([...namesInComments(saved + json)], [..."abcdefgh"]);
  });

  it("keeps JSON valid, and replaces the names of parts that are cut off", async () => {
    const service = '{"namespace":"shop","name":"web","address":"10.96.0.10","kind":"shop"}';
    const cut = `[{"namespace":"zoo",\n"name":"ape","address":"10.96.0.10"}\n${" ".repeat(100)}]`;
    const saved = '-A KUBE-SERVICES -m comment --comment "bar/foo:http cluster IP"\n';
    const texts = { "services.json": service, "cut.json": cut, "iptables-save.txt": saved };
    const names = new Set<string>();
    const readable = Object.entries(texts).map(([name, text]) =>
      redactable({ name, read: async () => text }, names),
    );
    const head = { apiVersion, kind: "Sysdump", program: "1", time: "", isRedacted: true } as const;
    const limits = { partMs: 1_000, totalMs: 1_000, partBytes: 100 };
    const files = await collect(readable, head, new FakeClock(), limits);
    const [whole = "", ...rest] = redacted(files, names).parts.values();
    assert.deepEqual(Object.keys(JSON.parse(whole)), ["namespace", "name", "address", "kind"]);
    assert.doesNotMatch([whole, ...rest].join(), /10\.96\.0\.10|shop|web|zoo|ape|foo|bar/);
  });

  it("replaces the names in a report of doctor and in errors without a running daemon", async () => {
    const server = "https://api.corp.example:6443";
    const node = nodeWith({
      addresses: addressesWith({ virtualIps: [ip("192.168.10.3")] }),
      daemon: known({ skipped: "no kube-ipvs answers" }),
      cluster: {
        version: known({ server, version: "v1.36.2", aheadMs: 0 }),
        rights: async () => {
          throw new Error(
            `Cannot reach API server ${server}: getaddrinfo ENOTFOUND api.corp.example`,
          );
        },
        otherNodes: known([{ name: "worker-a", addresses: [ip("192.168.10.3")] }]),
        deadNodes: known([{ name: "worker-b", readyEndpoints: 2, services: ["shop/cart"] }]),
        metalLb: known({
          evidence: "Service mail/smtp got its address from MetalLB",
          service: "mail/smtp",
        }),
      },
    });
    const checks = (await examine(node)).findings;
    const names = new Set<string>();
    const texts = ["worker-a", "worker-b", "shop/cart", "mail/smtp", "ENOTFOUND api.corp.example"];
    for (const text of texts) assert.ok(JSON.stringify(checks).includes(text), text);
    const parts = [
      { name: "doctor.json", read: async () => JSON.stringify({ checks }) },
      {
        name: "plan.json",
        read: async () => Promise.reject(new Error(`${server}: api.corp.example`)),
      },
    ].map((part) => redactable(part, names));
    const head = { apiVersion, kind: "Sysdump", program: "1", time: "", isRedacted: true } as const;
    const { index, parts: written } = redacted(await collect(parts, head, new FakeClock()), names);
    const all = JSON.stringify([index, ...written.values()]);
    assert.doesNotMatch(all, /worker|shop|cart|smtp|corp/);
    assert.match(all, /Node name-\d is not ready, but has 2 ready endpoints/);
  });
});
