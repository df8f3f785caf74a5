import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SpecResult } from "../../cluster/ginkgo.ts";
import {
  manifestTable,
  type Run,
  reportText,
  requestTable,
  specTable,
  withoutPaths,
  withRun,
} from "../../cluster/report.ts";

function run(proxy: string, specs: readonly SpecResult[]): Run {
  return {
    proxy,
    mode: "ipvs",
    commit: "abc1234",
    date: "2026-01-02",
    kubernetes: "v1.36.2",
    kernel: "6.12.1",
    options: "",
    specs,
  };
}

const passed: SpecResult = { title: "one | two", state: "passed", seconds: 12.3, reason: "" };
const failed: SpecResult = { title: "three", state: "failed", seconds: 100.6, reason: "timed out" };

describe("The report", () => {
  const runs = [run("kube-ipvs", [passed, failed]), run("kube-proxy", [passed])];

  it("names no folder of this machine", () => {
    const reason = "/home/me/k8s/kubectl --kubeconfig=/src/build/admin.conf: exit 1";
    const { specs } = withoutPaths(run("kube-ipvs", [{ ...failed, reason }]), {
      KUBERNETES: "/home/me/k8s",
      PROJECT: "/src",
    });
    assert.equal(
      specs[0]?.reason,
      "KUBERNETES/kubectl --kubeconfig=PROJECT/build/admin.conf: exit 1",
    );
  });

  it("has a row for each selection of specs and a column for each proxy and mode", () => {
    const all = [...runs, { ...run("kube-ipvs", [passed]), options: "FOCUS='one|two'" }];
    const lines = reportText(all, "").split("\n");
    const begin = lines.indexOf("| specs | kube-proxy ipvs | kube-ipvs ipvs |");
    assert.deepEqual(lines.slice(begin + 2, begin + 4), [
      "| Services | 1 passed in 12 s (abc1234, 2026-01-02) | 1 passed, 1 failed in 113 s (abc1234, 2026-01-02) |",
      "| `FOCUS='one\\|two'` |  | 1 passed in 12 s (abc1234, 2026-01-02) |",
    ]);
  });

  it("explains each failed spec, and says which of them passed when repeated", () => {
    const repeated = {
      ...run("kube-ipvs", [{ ...failed, state: "passed" }]),
      options: "NODES='3'",
    };
    const line = "- kube-ipvs ipvs failed `three`: timed out";
    const linesOf = (...all: readonly Run[]): readonly string[] =>
      reportText(all, "")
        .split("\n")
        .filter((one) => one.startsWith("- kube-ipvs ipvs"));
    assert.deepEqual(linesOf(...runs, repeated), [`${line} It passed when repeated.`]);
    assert.deepEqual(linesOf(repeated, ...runs), [line]);
  });

  it("has a table of specs with reasons for failures", () => {
    assert.deepEqual(
      specTable(runs)
        .split("\n")
        .map((line) => line.split("\t")),
      [
        ["spec", "kube-ipvs ipvs", "seconds", "reason", "kube-proxy ipvs", "seconds", "reason"],
        ["one | two", "passed", "12", "", "passed", "12", ""],
        ["three", "failed", "101", "timed out", "", "", ""],
        [""],
      ],
    );
  });

  it("replaces the run with the same proxy, mode and specs", () => {
    const other = run("kube-proxy", [failed]);
    const replaced = withRun([run("kube-ipvs", [failed]), other], run("kube-ipvs", [passed]));
    assert.deepEqual(replaced, [other, run("kube-ipvs", [passed])]);
  });

  it("keeps runs with other specs, in the same column", () => {
    const more = { ...run("kube-ipvs", [failed]), options: "FOCUS='three|four'" };
    const both = withRun([run("kube-ipvs", [passed])], more);
    assert.equal(
      specTable(both),
      "spec\tkube-ipvs ipvs\tseconds\treason\none | two\tpassed\t12\t\nthree\tfailed\t101\ttimed out\n",
    );
  });

  it("replaces runs whose specs it contains, but not if it skipped them", () => {
    const part = { ...run("kube-ipvs", [failed]), options: "FOCUS='three'" };
    assert.equal(withRun([part], run("kube-ipvs", [passed, failed])).length, 1);
    const skipped = { ...failed, state: "skipped" } as const;
    assert.equal(withRun([part], run("kube-ipvs", [passed, skipped])).length, 2);
  });

  it("shows a spec as skipped only if it never ran", () => {
    const skipped = { ...passed, state: "skipped", reason: "2 nodes" } as const;
    const later = { ...run("kube-ipvs", [skipped]), options: "NODES='2'" };
    assert.match(specTable([run("kube-ipvs", [passed]), later]), /\tpassed\t12\t\n/);
  });

  it("adds up the requests of all runs, and says why other permissions are granted", () => {
    const right = { verb: "get", resource: "/version", count: 2, forbidden: 0, isGranted: false };
    const unused = ["endpoints", "secrets"].map((resource) => {
      return { verb: "list", resource, count: 0, forbidden: 0, isGranted: true };
    });
    const ran = [
      { ...run("kube-ipvs", []), requests: [right] },
      { ...run("kube-ipvs", []), requests: [{ ...right, isGranted: true }, ...unused] },
      { ...run("kube-proxy", []), requests: [right] },
      run("kube-proxy", []),
    ];
    const rows = requestTable(ran).split("\n").slice(1, -1);
    assert.deepEqual(
      rows.map((line) => line.replaceAll("\t", "|")),
      [
        "kube-ipvs|ipvs|/version|get|4|0|yes|",
        "kube-ipvs|ipvs|endpoints|list|0|0|yes|Kubernetes' role system:node-proxier grants it; kube-ipvs reads only EndpointSlices",
        "kube-ipvs|ipvs|secrets|list|0|0|yes|",
        "kube-proxy|ipvs|/version|get|2|0|no|",
      ],
    );
  });

  it("lists the manifests of the last run that applied them", () => {
    const manifests = [{ name: "manifests/k3s.yaml", failure: "no | kind" }];
    const ran = [{ ...run("kube-ipvs", [passed]), manifests }];
    const rowOf = (table: string): readonly string[] => table.split("\n")[1]?.split("\t") ?? [];
    assert.deepEqual(rowOf(manifestTable(ran)), ["manifests/k3s.yaml", "no", "no | kind"]);
  });
});
