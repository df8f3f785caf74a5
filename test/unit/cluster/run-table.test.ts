import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { LabCluster } from "../../cluster/cluster.ts";
import { latencyHead, latencySentences } from "../../cluster/latency-text.ts";
import { recordRun } from "../../cluster/record-run.ts";
import { type RunRow, withRunRow } from "../../cluster/run-table.ts";
import { interruption, project } from "../../cluster/with-cluster.ts";

const row: RunRow = {
  ...{ run: "migration", proxy: "kube-ipvs", mode: "ipvs", seconds: 12.6 },
  counts: { counted: "steps", count: 9, failed: 0, connections: 50, broken: 0, failure: "" },
  ...{ failure: "", commit: "abc", date: "2026-11-25", kubernetes: "v1.36.2", kernel: "6.12.1" },
};
const tail = "abc\t2026-11-25\tv1.36.2\t6.12.1";
const linesOf = (table: string): readonly string[] => table.split("\n").slice(1, -1);

describe("The table of runs", () => {
  it("has a row for each run, proxy and mode", () => {
    const other = { ...row, run: "cluster-commands" };
    const first = withRunRow(withRunRow("", row), other);
    assert.deepEqual(linesOf(withRunRow(first, { ...row, seconds: 20 })), [
      `cluster-commands\tkube-ipvs\tipvs\tsteps\t9\t0\t50\t0\t13\t\t${tail}`,
      `migration\tkube-ipvs\tipvs\tsteps\t9\t0\t50\t0\t20\t\t${tail}`,
    ]);
  });

  it("shows why a run was aborted, on one line", () => {
    assert.deepEqual(linesOf(withRunRow("", { ...row, counts: undefined, failure: "a\nb\tc" })), [
      `migration\tkube-ipvs\tipvs\t\t\t\t\t\t13\ta b c\t${tail}`,
    ]);
  });
});

describe("A recorded run", () => {
  const versions = { kubernetes: { version: "v1.36.2" }, kernel: { modules: "/m/6.12.1" } };
  const name = { run: "migration", proxy: "kube-ipvs", mode: "ipvs" };
  const options = { kubernetes: "/k8s", stay: false };
  const record = async (
    body: () => Promise<NonNullable<RunRow["counts"]>>,
    signal: AbortSignal = new AbortController().signal,
  ): Promise<{ readonly rows: readonly RunRow[]; readonly status: unknown }> => {
    const rows: RunRow[] = [];
    const cluster = { ...versions, signal } as unknown as LabCluster;
    const status = await recordRun(cluster, options, name, body, (one) => rows.push(one)).catch(
      (error: Error) => error.message,
    );
    return { rows, status };
  };
  const counts = { counted: "steps", count: 3, failed: 0, failure: "" };

  it("has exit status 0 only if nothing failed and no connection broke", async () => {
    const statusOf = async (more: object): Promise<unknown> =>
      (await record(async () => ({ ...counts, ...more }))).status;
    assert.equal(await statusOf({}), 0);
    assert.equal(await statusOf({ connections: 50, broken: 1 }), 1);
    assert.equal(await statusOf({ failed: 1, failure: "exited with 1" }), 1);
  });

  it("has a row with the first failure and without paths of this machine", async () => {
    const failure = `/k8s/kubectl in ${project}/build exited with 1`;
    const { rows } = await record(async () => ({ ...counts, failed: 1, failure }));
    const [{ failure: shown, kubernetes, kernel }] = rows as [RunRow];
    assert.equal(shown, "KUBERNETES/kubectl in PROJECT/build exited with 1");
    assert.deepEqual([kubernetes, kernel], ["v1.36.2", "6.12.1"]);
  });

  it("has a row without counts if it is aborted", async () => {
    const { rows, status } = await record(() => Promise.reject(new Error("not ready")));
    assert.equal(status, "not ready");
    assert.deepEqual([rows[0]?.counts, rows[0]?.failure], [undefined, "not ready"]);
  });

  it("has a row with the reason if a program of the cluster exits", async () => {
    const signal = AbortSignal.abort(new Error("etcd exited"));
    const { rows } = await record(() => Promise.reject(new Error("aborted")), signal);
    assert.equal(rows[0]?.failure, "etcd exited");
  });

  it("has no row if it is interrupted", async () => {
    const signal = AbortSignal.abort(new Error(interruption));
    const { rows } = await record(() => Promise.reject(new Error("aborted")), signal);
    assert.deepEqual(rows, []);
  });
});

describe("The report's sentences about latency", () => {
  it("describe the runs with changes", () => {
    const lines = [
      "kube-ipvs\tipvs\t10\t0\t84\t48\t9\t0\t0\t\t\t\t\tabc\t2026-11-28",
      "kube-ipvs\tipvs\t10\t1\t36\t18\t9\t600\t164\t0.77\t0.5–1\t1.91\t1–2\tabc\t2026-11-28",
    ];
    assert.equal(
      latencySentences([latencyHead.join("\t"), ...lines, ""].join("\n")),
      "- kube-ipvs in ipvs mode with 10 Services recorded 164 of 600 changes: p50 0.77 s (0.5–1 s), p99 1.91 s (1–2 s).",
    );
  });
});
