/** Tests that no fault row can change the machine on which the tests run. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { requireLabKernel, skippedOnHost } from "../../support/machine-wide.ts";

const tests = join(import.meta.dirname, "../..");
const inLabKernel = { LAB_KIND: "lab-kernel" };
const elsewhere = [{}, { LAB_KIND: "host" }, { LAB_KIND: "" }];

/** Ways to change the clock, the modules or kernel-wide limits. */
const changes =
  /\bdate -s|\brmmod\b|modprobe -r|settimeofday\(|clock_settime\(|\/proc\/1\/ns|> *\/proc\/sysrq-trigger/;

describe("a change to the whole machine", () => {
  it("is skipped outside the lab kernel, with a reason", () => {
    assert.equal(skippedOnHost("sets the clock", inLabKernel), false);
    for (const environment of elsewhere) {
      const reason = skippedOnHost("sets the clock", environment);
      assert.equal(reason, "it sets the clock, so it runs in the lab kernel only");
    }
  });

  it("is rejected outside the lab kernel", () => {
    requireLabKernel("sets the clock", inLabKernel);
    for (const environment of elsewhere) {
      assert.throws(
        () => requireLabKernel("sets the clock", environment),
        /^Error: Not in the lab kernel \(LAB_KIND=(host)?\): this sets the clock$/,
      );
    }
  });

  it("is guarded in each file that makes such a change", () => {
    const files = readdirSync(tests, { recursive: true, encoding: "utf8" }).filter(
      (name) => name.endsWith(".ts") && !/^(unit|lab-boot|golden)\//.test(name),
    );
    const changing = files.filter((name) => changes.test(readFileSync(join(tests, name), "utf8")));
    assert.deepEqual(changing.toSorted(), [
      ...["faults/rows/kernel.ts", "faults/rows/process.ts"],
      "lab/doctor.test.ts",
    ]);
    for (const name of changing)
      assert.match(readFileSync(join(tests, name), "utf8"), /requireLabKernel\(/);
  });
});
