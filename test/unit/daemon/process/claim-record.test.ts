/** Tests the claim record on disk. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { silentLogger } from "../../../../src/base/log.ts";
import {
  claimsIn,
  keepClaims,
  openClaimFile,
} from "../../../../src/daemon/process/claim-record.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";

function pathFor(test: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-claims-"));
  test.after(() => rmSync(folder, { recursive: true }));
  return join(folder, "deeper", "claims.json");
}

const seen = new Map([["TCP 203.0.113.9:80 default/web 5", 1_700_000_000]]);
const refused = new Set(["TCP 192.168.10.11:22 default/web 5"]);

describe("the claim record", () => {
  it("is read by the next process, even after a reboot", async (test) => {
    const path = pathFor(test);
    const file = openClaimFile(path, silentLogger);
    keepClaims(file, { seen, refused });
    await file.idle();
    assert.deepEqual(claimsIn(openClaimFile(path, silentLogger)), { seen, refused });
  });

  it("is empty without a file, and an unreadable file is logged", (test) => {
    const log = new RecordingLogger();
    const path = join(pathFor(test), "..", "..", "claims.json");
    assert.equal(claimsIn(openClaimFile(path, log)).seen.size, 0);
    assert.equal(log.lines.length, 0);
    writeFileSync(path, "{");
    assert.equal(claimsIn(openClaimFile(path, log)).seen.size, 0);
    assert.match(log.lines[0]?.event ?? "", /^Cannot read .* earlier run/);
  });

  it("never becomes longer than the largest file that is read", async (test) => {
    const path = pathFor(test);
    const file = openClaimFile(path, silentLogger);
    const many = new Map(
      Array.from({ length: 20_000 }, (_, index) => [`${index} ${"x".repeat(300)}`, index]),
    );
    keepClaims(file, { seen: many, refused });
    await file.idle();
    const recorded = claimsIn(openClaimFile(path, silentLogger));
    assert.ok(
      recorded.seen.size > 1_000 && recorded.seen.size < 20_000,
      String(recorded.seen.size),
    );
    assert.equal(recorded.refused.size, 1);
  });
});
