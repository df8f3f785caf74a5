import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it } from "node:test";
import { gunzipSync, gzipSync } from "node:zlib";
import { apiVersion } from "../../../src/answer/answers.ts";
import type { Sysdump } from "../../../src/answer/sysdump.ts";
import { packed, unpacked } from "../../../src/sysdump/archive.ts";
import { answerProblems } from "../../support/answer-schemas.ts";

const index: Sysdump = {
  ...{ apiVersion, kind: "Sysdump", program: "1.0.0", time: "2026-01-02T03:04:05.000Z" },
  isRedacted: false,
  parts: [
    { name: "status.json", bytes: 3, milliseconds: 1 },
    { name: "log.txt", bytes: 0, milliseconds: 2, note: "no daemon is running" },
  ],
};
const files = {
  index,
  parts: new Map([
    ["status.json", "{}\n"],
    ["long.txt", "ä".repeat(1_000)],
    ["empty.txt", ""],
    ["block.txt", "x".repeat(512)],
  ]),
};
const archive = packed(files);

/** The message of the error with which reading fails. */
function errorOf(bytes: Uint8Array, maxBytes?: number): string {
  try {
    unpacked(bytes, maxBytes);
  } catch (error) {
    return (error as Error).message;
  }
  return "";
}

describe("an archive", () => {
  it("contains what was packed, and tar reads it", () => {
    assert.deepEqual(unpacked(archive), files);
    assert.deepEqual(answerProblems("show", JSON.stringify(index)), []);
    const list = execFileSync("tar", ["-tzf", "-"], { input: archive, encoding: "utf8" });
    const names = ["index.json", ...files.parts.keys()];
    assert.deepEqual(
      list.trim().split("\n"),
      names.map((name) => `kube-ipvs-sysdump/${name}`),
    );
    const long = execFileSync("tar", ["-xzOf", "-", "kube-ipvs-sysdump/long.txt"], {
      input: archive,
      encoding: "utf8",
    });
    assert.equal(long, files.parts.get("long.txt"));
  });

  it("fails with one reason if it is truncated at any byte", () => {
    const tar = gunzipSync(archive);
    for (let length = 0; length < archive.length; length += 1) {
      assert.match(errorOf(archive.subarray(0, length)), /^it is (?:truncated|not a \.tar\.gz)/);
    }
    for (let length = 0; length < tar.length - 1_024; length += 100) {
      assert.match(errorOf(gzipSync(tar.subarray(0, length))), /^it is truncated/, `${length}`);
    }
  });

  it("fails with one reason if it is something else", () => {
    const notGzip = /^it is not a \.tar\.gz archive, or it is damaged$/;
    const otherTar = gunzipSync(archive).fill(0x61, 0, 100);
    const later = packed({ ...files, index: { ...index, apiVersion: "kube-ipvs/v9" as never } });
    const damaged = Buffer.from(archive).fill(0, 20, 40);
    assert.match(errorOf(Buffer.from("text")), notGzip);
    assert.match(errorOf(damaged), notGzip);
    assert.match(errorOf(gzipSync(otherTar)), /^kube-ipvs sysdump did not write it$/);
    assert.match(errorOf(gzipSync("text")), /^it is truncated, or it is not a tar file$/);
    const negative = gunzipSync(archive);
    negative.write("-0000001000", 124);
    assert.match(errorOf(gzipSync(negative)), /^it is truncated, or it is not a tar file$/);
    assert.match(errorOf(later), /^it has Sysdump of kube-ipvs\/v9, but this program reads/);
    for (const parts of [undefined, [null], [{ name: 1 }]]) {
      const changed = packed({ ...files, index: { ...index, parts: parts as never } });
      assert.match(errorOf(changed), /^its index\.json is damaged$/);
    }
    assert.match(errorOf(gzipSync(Buffer.alloc(10_001)), 10_000), /^it is too large$/);
  });
});
