/** Code and constants that are given back: the process goes on as if nothing were. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { close, open, releaseFilePages, transact } from "../../native-shim/index.ts";
import { noop, protocols } from "./messages.ts";

function residentFileKb(): number {
  const status = readFileSync("/proc/self/status", "utf8");
  return Number(/^RssFile:\s+(\d+)/m.exec(status)?.[1]);
}

/** An emulator's own maps are not the program's: it says that nothing is resident. */
const isEmulated: boolean = !readFileSync("/proc/self/smaps", "utf8").match(/^Rss: +[1-9]/m);

describe("releaseFilePages", () => {
  it("gives back most of what is mapped from files", { skip: isEmulated }, () => {
    const beforeKb = residentFileKb();
    const releasedKb = releaseFilePages();
    const afterKb = residentFileKb();
    assert.ok(releasedKb > 10_000, `${releasedKb} kB were released`);
    assert.ok(afterKb < beforeKb / 2, `${afterKb} kB of ${beforeKb} kB remain`);
  });

  it("disturbs neither code, nor constants, nor data, nor threads that wait", async () => {
    const socket = open(protocols.route, {});
    const pending = transact(socket, noop(1), 0, 16, 1, 5_000);
    for (let turn = 0; turn < 20; turn += 1) {
      releaseFilePages();
      assert.equal(createHash("sha256").update("").digest("hex").slice(0, 8), "e3b0c442");
      assert.equal(new Intl.NumberFormat("de-DE").format(1234.5), "1.234,5");
      assert.equal(gzipSync("").length, 20);
    }
    assert.equal((await pending).errno, 0);
    assert.equal((await transact(socket, noop(2), 0, 16, 2, 5_000)).errno, 0);
    close(socket);
    assert.equal(execFileSync("echo", ["still here"]).toString(), "still here\n");
  });
});
