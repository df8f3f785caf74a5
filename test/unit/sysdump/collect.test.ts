import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { apiVersion } from "../../../src/answer/answers.ts";
import type { Sysdump } from "../../../src/answer/sysdump.ts";
import { systemClock } from "../../../src/base/clock.ts";
import { collect, type Part } from "../../../src/sysdump/collect.ts";

const head: Omit<Sysdump, "parts"> = {
  ...{ apiVersion, kind: "Sysdump", program: "1.0.0", time: "2026-01-02T03:04:05.000Z" },
  isRedacted: false,
};
const limits = { partMs: 20, totalMs: 60_000, partBytes: 10 };

function part(name: string, read: () => Promise<string>): Part {
  return { name, read };
}

describe("collecting parts", () => {
  it("notes a part that fails, is too slow or is too long, and continues", async () => {
    const { index, parts } = await collect(
      [
        part("fails", () => Promise.reject(new Error("EPERM"))),
        part("hangs", () => new Promise(() => {})),
        part("long", async () => "1234\n5678\n90"),
        part("line", async () => "1".repeat(11)),
        part("good", async () => "text"),
      ],
      head,
      systemClock,
      limits,
    );
    assert.deepEqual(
      index.parts.map(({ name, bytes, note }) => [name, bytes, note]),
      [
        ["fails", 0, "EPERM"],
        ["hangs", 0, "not complete within 0.02 s"],
        ["long", 10, "the first 10 of 12 bytes"],
        ["line", 10, "the first 10 of 11 bytes"],
        ["good", 4, undefined],
      ],
    );
    assert.deepEqual([...parts.keys()], ["long", "line", "good"]);
    assert.equal(parts.get("long"), "1234\n5678\n");
  });

  it("skips parts after the time limit of the archive", async () => {
    const slow = part("slow", () => new Promise(() => {}));
    const { index } = await collect([slow, slow, slow, slow, slow], head, systemClock, {
      ...limits,
      totalMs: 60,
    });
    assert.equal(index.parts.at(-1)?.note, "skipped because 0.06 s had passed");
  });

  it("removes secrets from texts and errors", async () => {
    const token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln";
    const secrets = [
      ...[`Authorization: Bearer ${token}`, "Authorization: bearer abc.def-123="],
      ...[`token ${token}`, "https://user:hunter2@10.0.0.1:6443"],
      "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    ];
    const { index, parts } = await collect(
      [
        part("text", async () => secrets.join("\n")),
        part("fails", () => Promise.reject(new Error(secrets.join("\n")))),
      ],
      head,
      systemClock,
    );
    const all = `${parts.get("text")} ${index.parts.at(-1)?.note}`;
    for (const secret of ["eyJ", "abc.def", "hunter2", "MIIE"])
      assert.ok(!all.includes(secret), all);
    assert.match(all, /user:REMOVED@10\.0\.0\.1:6443/);
  });
});
