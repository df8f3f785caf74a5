import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { allowedCpu, findShortage, kernelsInMemory } from "../../lab/kernel-needs.ts";
import { explainMissing, findLab, type LabSources } from "../../lab/lab.ts";
import { childrenSeconds, shellQuote } from "../../lab/lab-kernel.ts";
import { listSuites, nightlySuites } from "../../lab/suites.ts";
import {
  parseTestSummary,
  readFailures,
  readNotes,
  readSkippedTests,
} from "../../queue/test-summary.ts";

describe("the suites", () => {
  it("are all the test files in the folder", () => {
    const files = readdirSync(join(import.meta.dirname, "../../lab"));
    const expected = files.filter((file) => file.endsWith(".test.ts"));
    const found = listSuites(false).map(({ file }) => file.replace("test/lab/", ""));
    assert.deepEqual(found.toSorted(), expected.toSorted());
  });

  it("that are left to make nightly exist", () => {
    const left = listSuites(false).filter(({ isNightly }) => isNightly);
    assert.deepEqual(left.map(({ name }) => name).toSorted(), [...nightlySuites].toSorted());
  });
});

describe("the summary of a test run", () => {
  const closing = ["ℹ tests 7", "ℹ pass 4", "ℹ fail 1", "ℹ skipped 1", "ℹ todo 1"];

  it("is read from the closing lines", () => {
    const output = ["✔ pass 99", ...closing, ""].join("\n");
    assert.deepEqual(parseTestSummary(output), { passed: 4, failed: 1, skipped: 2 });
  });

  it("contains notes of a suite, without the closing lines", () => {
    const output = [
      "golden: 98 scenarios",
      "✔ a test (3ms)",
      "  ℹ 20 kills",
      ...closing,
      "Warning: no",
    ].join("\n");
    assert.deepEqual(readNotes(output), ["golden: 98 scenarios", "20 kills"]);
  });

  it("contains one line for each failed test: its place, name and error", () => {
    const failing = [
      ...["test at a.test.ts:4:3", "✖ serves (web): 8 (23.07ms)"],
      ...["  AssertionError: Expected values to be equal:", "  + actual - expected", "  ", "  + 2"],
      ...["      at TestContext.<anonymous> (file:///a.test.ts:4:34)", "    code: 1", ""],
      ...["test at a.test.ts:5:3", "✖ drains", "  'test timed out after 50ms'", ""],
      ...["test at a.test.ts:6:3", "✖ ends", `  Error: ${"x".repeat(400)}`, ""],
      ...["test at a.test.ts:7:3", "✖ next"],
      "  'test did not finish before its parent and was cancelled'",
    ];
    const output = ["✖ serves (3ms)", ...closing, "", "✖ failing tests:", "", ...failing, ""];
    const [serves, drains, ends = "", canceled, ...others] = readFailures(output.join("\n"));
    assert.equal(
      serves,
      "a.test.ts:4:3: serves (web): 8: AssertionError: Expected values to be equal: + actual - expected + 2",
    );
    assert.equal(drains, "a.test.ts:5:3: drains: 'test timed out after 50ms'");
    assert.match(ends, /^a\.test\.ts:6:3: ends: Error: x{293}…$/);
    assert.deepEqual([canceled, others], ["1 canceled", []]);
  });

  it("contains the last lines of an interrupted run", () => {
    assert.deepEqual(readFailures("one\ntwo\n\nthree\n  four\n"), ["two", "three", "four"]);
  });

  it("names the tests that were skipped, with their reasons", () => {
    const output = ["  ﹣ clock jumps: no (now) (0.05ms) # it sets the clock", ...closing].join(
      "\n",
    );
    assert.deepEqual(readSkippedTests(output), ["clock jumps: no (now): it sets the clock"]);
  });

  it("is absent if the run was interrupted", () => {
    assert.equal(parseTestSummary("✔ one\n✔ two\n"), undefined);
    assert.equal(parseTestSummary(""), undefined);
  });
});

describe("the lab", () => {
  const kernel = { binary: "/usr/bin/linux.uml", modules: "/usr/lib/uml/modules/6.1" };
  const labKernel = { kind: "lab-kernel", kernel };
  const withIpvs: LabSources = {
    findKernel: (folder) => (folder === undefined ? kernel : { ...kernel, binary: folder }),
    hostHasIpvs: () => true,
    findShortage: () => undefined,
    architecture: "x64",
  };
  /** Fails if the kernel is queried, because that loads a module. */
  const askingFails: LabSources = {
    ...withIpvs,
    hostHasIpvs: () => assert.fail("The machine's own kernel was queried"),
  };

  it("is the lab kernel, and does not affect the machine's own kernel", () => {
    assert.deepEqual(findLab({}, askingFails), labKernel);
    assert.deepEqual(findLab({ LAB: "uml" }, askingFails), labKernel);
    const built = findLab({ LAB_KERNEL: "/built" }, askingFails);
    assert.deepEqual(built, { ...labKernel, kernel: { ...kernel, binary: "/built" } });
  });

  it("is the machine's own kernel only with LAB=host, even if no lab kernel is installed", () => {
    assert.deepEqual(findLab({ LAB: "host" }, withIpvs), { kind: "host" });
    const withoutKernel: LabSources = { ...askingFails, findKernel: () => undefined };
    assert.deepEqual(findLab({}, withoutKernel), {
      kind: "none",
      missing: explainMissing("x64"),
    });
  });

  it("is not started if LAB=host finds no IPVS, or if LAB has any other value", () => {
    const withoutIpvs: LabSources = { ...withIpvs, hostHasIpvs: () => false };
    assert.deepEqual(findLab({ LAB: "host" }, withoutIpvs), {
      kind: "none",
      missing:
        "LAB=host: this machine's kernel has no IPVS (modprobe ip_vs fails); without LAB=host the lab kernel is used",
    });
    assert.deepEqual(findLab({ LAB: "Host" }, askingFails), {
      kind: "none",
      missing: "LAB=Host is unknown: use LAB=uml (the default) or LAB=host",
    });
  });

  it("does not start if the machine lacks a requirement, and says so in one line", () => {
    const short: LabSources = { ...withIpvs, findShortage: () => "no memory" };
    assert.deepEqual(findLab({}, short), { kind: "none", missing: "no memory" });
    const enough = 700 * 2 ** 20;
    assert.equal(findShortage(["/a", "/tmp"], enough), undefined);
    assert.equal(
      findShortage(["/a"], enough - 1),
      "a lab kernel needs 700 MB of free memory, and 699 MB are available",
    );
    assert.match(
      findShortage(["/a", "/my files"], enough) ?? "",
      /^the path \/my files has a space/,
    );
  });

  it("runs as many suites in parallel as memory allows", () => {
    const gigabyte = 2 ** 30;
    assert.equal(kernelsInMemory(6, 16 * gigabyte), 6);
    assert.equal(kernelsInMemory(6, 3 * gigabyte), 4);
    assert.equal(kernelsInMemory(6, 0), 1);
  });

  it("is pinned to a processor that this process may use", () => {
    const status = "Name:\tnode\nCpus_allowed_list:\t2-3,8\n";
    assert.deepEqual(
      [0, 1, 2, 3].map((index) => allowedCpu(index, status)),
      [2, 3, 8, 2],
    );
  });

  it("says in one line what is missing and what to do", () => {
    for (const architecture of ["x64", "arm64"]) {
      const text = explainMissing(architecture);
      assert.match(text, /^the lab kernel .*LAB=host uses this machine's own kernel/);
      assert.doesNotMatch(text, /\n/);
    }
    assert.match(explainMissing("x64"), /apt-get install user-mode-linux/);
    assert.match(explainMissing("arm64"), /amd64 only/);
  });

  it("adds CPU time of programs in the shell from the shell's output", () => {
    const times = "1m0.000000s 0m0.500000s\n2m4.250000s 0m10.500000s\n";
    assert.equal(childrenSeconds(times), 134.75);
    assert.equal(childrenSeconds(""), undefined);
  });

  it("passes on arguments unchanged", () => {
    assert.equal(shellQuote("it's $HOME"), `'it'\\''s $HOME'`);
  });
});
