import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { explainMissing } from "../../lab/lab.ts";
import { childrenSeconds, shellQuote } from "../../lab/lab-kernel.ts";
import { listSuites } from "../../lab/suites.ts";
import { parseTestSummary, readFailingTests, readNotes } from "../../lab/test-summary.ts";

describe("the suites", () => {
  it("are all the test files of the folder", () => {
    const files = readdirSync(join(import.meta.dirname, "../../lab"));
    const expected = files.filter((file) => file.endsWith(".test.ts"));
    const found = listSuites(false).map(({ file }) => file.replace("test/lab/", ""));
    assert.deepEqual(found.toSorted(), expected.toSorted());
  });
});

describe("the summary of a test run", () => {
  const closing = ["ℹ tests 7", "ℹ pass 4", "ℹ fail 1", "ℹ skipped 1", "ℹ todo 1"];

  it("is read from the closing lines", () => {
    const output = ["✔ pass 99", ...closing, ""].join("\n");
    assert.deepEqual(parseTestSummary(output), { passed: 4, failed: 1, skipped: 2 });
  });

  it("has notes: what a suite says of itself, without the closing lines", () => {
    const output = [
      "golden: 98 scenarios",
      "✔ a test (3ms)",
      "  ℹ 20 kills",
      ...closing,
      "Warning: no",
    ].join("\n");
    assert.deepEqual(readNotes(output), ["golden: 98 scenarios", "20 kills"]);
  });

  it("ends with what failed", () => {
    const output = ["✖ a test (3ms)", ...closing, "", "✖ failing tests:", "", "why", ""].join("\n");
    assert.equal(readFailingTests(output), "✖ failing tests:\n\nwhy");
    assert.equal(readFailingTests(["✔ a test (3ms)", ...closing].join("\n")), "");
  });

  it("is absent when the run broke off", () => {
    assert.equal(parseTestSummary("✔ one\n✔ two\n"), undefined);
    assert.equal(parseTestSummary(""), undefined);
  });
});

describe("the lab", () => {
  it("says what is missing and what would have worked, in one line", () => {
    for (const architecture of ["x64", "arm64"]) {
      const text = explainMissing(architecture);
      assert.match(text, /^this machine's kernel has no IPVS .*(install|use a machine)/);
      assert.doesNotMatch(text, /\n/);
    }
    assert.match(explainMissing("x64"), /apt-get install user-mode-linux/);
    assert.match(explainMissing("arm64"), /amd64 only/);
  });

  it("reads processor time of what the shell started from what the shell prints", () => {
    const times = "1m0.000000s 0m0.500000s\n2m4.250000s 0m10.500000s\n";
    assert.equal(childrenSeconds(times), 134.75);
    assert.equal(childrenSeconds(""), undefined);
  });

  it("passes arguments on as they are", () => {
    assert.equal(shellQuote("it's $HOME"), `'it'\\''s $HOME'`);
  });
});
