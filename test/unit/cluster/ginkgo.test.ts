import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { progressReader, specResults } from "../../cluster/ginkgo.ts";

const printed = `Will run 3 of 7906 specs
------------------------------
[SynchronizedBeforeSuite] PASSED [0.020 seconds]
------------------------------
SSSSSSSS
------------------------------
[sig-network] Services should serve a basic endpoint from pods [Conformance] [sig-network, Conformance]
k8s.io/kubernetes/test/e2e/network/service.go:1
  STEP: Creating a kubernetes client
• [12.345 seconds]
------------------------------
[sig-network] Services should be able to up and down services [sig-network]
  [FAILED] in [It] - service.go:2
• [FAILED] [130.500 seconds]
[sig-network] Services [It] should be able to up and down services [sig-network]
------------------------------
[sig-network] Services should restart [Disruptive] [sig-network, Disruptive, Feature:Restart]
S [SKIPPED] [0.071 seconds]
[sig-network] Services [It] should restart [Disruptive] [sig-network, Disruptive]
------------------------------
[ReportAfterSuite] PASSED [0.001 seconds]
`;

describe("Ginkgo's output", () => {
  it("becomes a progress line for each spec", () => {
    const read = progressReader();
    assert.deepEqual(
      printed.split("\n").flatMap((line) => read(line) ?? []),
      [
        "1/3 passed 12 s  [sig-network] Services should serve a basic endpoint from pods [Conformance]",
        "2/3 failed 130 s  [sig-network] Services should be able to up and down services",
        "3/3 skipped 0 s  [sig-network] Services should restart [Disruptive]",
      ],
    );
  });
});

describe("Ginkgo's report", () => {
  const spec = { LeafNodeType: "It", ContainerHierarchyTexts: ["[sig-network] Services"] };

  const selection = {
    focus: String.raw`\[sig-network\] Services`,
    skip: String.raw`\[Serial\]|slow`,
  };

  it("becomes results, without specs that are not in the focus", () => {
    const SpecReports = [
      {
        ...spec,
        LeafNodeType: "SynchronizedBeforeSuite",
        LeafNodeText: "",
        State: "passed",
        RunTime: 1,
      },
      { ...spec, LeafNodeText: "b", State: "passed", RunTime: 12_300_000_000 },
      {
        ...spec,
        LeafNodeText: "a",
        State: "panicked",
        RunTime: 1e9,
        Failure: { Message: "why\nmore" },
      },
      {
        ...spec,
        ContainerHierarchyTexts: ["DNS"],
        LeafNodeText: "c [Serial]",
        State: "skipped",
        RunTime: 0,
      },
      { ...spec, LeafNodeText: "d", State: "skipped", RunTime: 0, Failure: { Message: "3 nodes" } },
    ];
    assert.deepEqual(specResults([{ SpecReports }], selection), [
      { title: "[sig-network] Services a", state: "failed", seconds: 1, reason: "why" },
      { title: "[sig-network] Services b", state: "passed", seconds: 12.3, reason: "" },
      { title: "[sig-network] Services d", state: "skipped", seconds: 0, reason: "3 nodes" },
    ]);
  });

  it("contains the specs that SKIP excludes, with a reason", () => {
    const SpecReports = ["e [Serial]", "f slow"].map((LeafNodeText) => {
      return { ...spec, LeafNodeText, State: "skipped", RunTime: 0 };
    });
    assert.deepEqual(
      specResults([{ SpecReports }], selection).map(({ state, reason }) => `${state}: ${reason}`),
      [
        "skipped: excluded by SKIP: Kubernetes runs it alone, because it can affect other specs",
        "skipped: excluded by SKIP",
      ],
    );
  });

  it("contains the specs that did not run before the run ended", () => {
    const SpecReports = [{ ...spec, LeafNodeText: "g", State: "skipped", RunTime: 0 }];
    const [result] = specResults([{ SpecReports }], { ...selection, skip: "" });
    assert.equal(result?.reason, "the run ended early");
  });

  it("has no results if the run failed before its first spec", () => {
    assert.deepEqual(specResults([{ SpecReports: null }], selection), []);
  });
});
