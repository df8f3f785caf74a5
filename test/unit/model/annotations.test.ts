import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readTuning, requestedScheduler } from "../../../src/model/annotations.ts";
import type { Tuning } from "../../../src/model/tuning.ts";
import { serviceRecord } from "../../support/records.ts";

const noChoice = { missing: new Set<string>(), extra: [] };
const defaults: Tuning = { scheduler: "rr" };

function read(
  annotations: Readonly<Record<string, string>>,
  missing: readonly string[] = [],
): { readonly tuning: Partial<Tuning>; readonly problems: readonly string[] } {
  const service = serviceRecord({ annotations });
  const { tuning, problems } = readTuning(service, defaults, {
    missing: new Set(missing),
    extra: ["ours"],
  });
  const own = Object.entries(tuning).filter(
    ([name, value]) => defaults[name as keyof Tuning] !== value,
  );
  return {
    tuning: Object.fromEntries(own),
    problems: problems.map(({ annotation, reason }) => `${annotation} ${reason}`),
  };
}

const own = "kube-ipvs.io/";
const scheduler = "kube-ipvs.io/scheduler";
const flags = "kube-ipvs.io/scheduler-flags";
const alias = "kube-router.io/service.scheduler";

interface Case {
  readonly name: string;
  readonly annotations: Readonly<Record<string, string>>;
  readonly tuning?: Partial<Tuning>;
  readonly problems?: readonly string[];
  readonly missing?: readonly string[];
}

const cases: readonly Case[] = [
  { name: "a scheduler", annotations: { [scheduler]: "wrr" }, tuning: { scheduler: "wrr" } },
  {
    name: "a scheduler with flags",
    annotations: { [scheduler]: "sh", [flags]: "sh-port, sh-fallback" },
    tuning: { scheduler: "sh", schedulerFlags: ["sh-port", "sh-fallback"] },
  },
  {
    name: "no flags",
    annotations: { [scheduler]: "mh", [flags]: "none" },
    tuning: { scheduler: "mh", schedulerFlags: [] },
  },
  {
    name: "flags of another scheduler",
    annotations: { [scheduler]: "mh", [flags]: "sh-port" },
    tuning: { scheduler: "mh", schedulerFlags: ["sh-port"] },
    problems: [`${flags} annotation-without-effect`],
  },
  { name: "kube-router's name", annotations: { [alias]: "lc" }, tuning: { scheduler: "lc" } },
  {
    name: "kube-router's name next to kube-ipvs's, which applies",
    annotations: { [alias]: "lc", [scheduler]: "sed" },
    tuning: { scheduler: "sed" },
  },
  {
    name: "a scheduler that the kernel lacks",
    annotations: { [scheduler]: "mh" },
    missing: ["mh"],
    problems: [`${scheduler} scheduler-unavailable`],
  },
  {
    name: "a scheduler that neither Linux nor the administrator names",
    annotations: { [scheduler]: "ftp" },
    problems: [`${scheduler} scheduler-not-allowed`],
  },
  {
    name: "a scheduler that the administrator allows",
    annotations: { [scheduler]: "ours" },
    tuning: { scheduler: "ours" },
  },
  {
    name: "an invalid scheduler name",
    annotations: { [scheduler]: "round robin", [flags]: "port" },
    problems: [`${scheduler} invalid-annotation`, `${flags} invalid-annotation`],
  },
  {
    name: "an empty value",
    annotations: { [scheduler]: "" },
    problems: [`${scheduler} invalid-annotation`],
  },
  {
    name: "one-packet scheduling without a UDP port",
    annotations: { [`${own}one-packet`]: "true" },
    tuning: { isOnePacket: true },
    problems: [`${own}one-packet annotation-without-effect`],
  },
  {
    name: "a limit",
    annotations: { [`${own}max-connections`]: "100" },
    tuning: { connectionLimit: { upper: 100, lower: 0 } },
  },
  {
    name: "a limit with a lower threshold",
    annotations: { [`${own}max-connections`]: "100, 80" },
    tuning: { connectionLimit: { upper: 100, lower: 80 } },
  },
  {
    name: "a lower threshold above the upper one",
    annotations: { [`${own}max-connections`]: "80,100" },
    problems: [`${own}max-connections invalid-annotation`],
  },
  {
    name: "a deadline",
    annotations: { [`${own}drain-deadline`]: "1m30s" },
    tuning: { drainDeadlineSeconds: 90 },
  },
  {
    name: "a negative deadline",
    annotations: { [`${own}drain-deadline`]: "-1s" },
    problems: [`${own}drain-deadline invalid-annotation`],
  },
  {
    name: "weights that the scheduler ignores",
    annotations: { [`${own}weights`]: "slice" },
    tuning: { weights: "slice" },
    problems: [`${own}weights annotation-without-effect`],
  },
  {
    name: "a slow start",
    annotations: { [scheduler]: "wlc", [`${own}slow-start`]: "30s" },
    tuning: { scheduler: "wlc", slowStartMs: 30_000 },
  },
  {
    name: "a slow start with a scheduler without weights",
    annotations: { [scheduler]: "mh", [`${own}slow-start`]: "30s" },
    tuning: { scheduler: "mh", slowStartMs: 30_000 },
    problems: [`${own}slow-start annotation-without-effect`],
  },
  {
    name: "a slow start that is too short",
    annotations: { [scheduler]: "wlc", [`${own}slow-start`]: "10ms" },
    tuning: { scheduler: "wlc" },
    problems: [`${own}slow-start invalid-annotation`],
  },
  {
    name: "a canary",
    annotations: { [scheduler]: "wrr", [`${own}canary`]: "slice=web-canary,share=10%" },
    tuning: { scheduler: "wrr", canary: { by: "slice", name: "web-canary", percent: 10 } },
  },
  {
    name: "a canary share above the maximum",
    annotations: { [scheduler]: "wrr", [`${own}canary`]: "zone=b,share=110%" },
    tuning: { scheduler: "wrr" },
    problems: [`${own}canary invalid-annotation`],
  },
  {
    name: "a topology preference",
    annotations: { [`${own}prefer-topology`]: "example.com/rack" },
    tuning: { preference: { label: "example.com/rack", minimumPercent: 50 } },
  },
  {
    name: "a topology preference with a minimum",
    annotations: { [`${own}prefer-topology`]: "rack_1, minimum = 0%" },
    tuning: { preference: { label: "rack_1", minimumPercent: 0 } },
  },
  ...["", "a/b/c", "-rack", "/rack", "rack=r1", "rack,minimum=50", "rack,minimum=101%"].map(
    (value) => ({
      name: `the invalid topology preference "${value}"`,
      annotations: { [`${own}prefer-topology`]: value },
      problems: [`${own}prefer-topology invalid-annotation`],
    }),
  ),
  {
    name: "an unknown name",
    annotations: { "kube-ipvs.io/schedular": "wrr", [scheduler]: "wrr" },
    tuning: { scheduler: "wrr" },
    problems: ["kube-ipvs.io/schedular unknown-annotation"],
  },
];

describe("annotations of a Service", () => {
  for (const { name, annotations, tuning = {}, problems = [], missing } of cases) {
    it(`are read: ${name}`, () => {
      assert.deepEqual(read(annotations, missing), { tuning, problems });
    });
  }

  it("are undefined if there are none", () => {
    assert.equal(readTuning(serviceRecord(), defaults, noChoice).tuning, defaults);
  });

  it("yield the scheduler for the kernel", () => {
    const asked = (annotations?: Readonly<Record<string, string>>): string | undefined =>
      requestedScheduler(serviceRecord(annotations === undefined ? {} : { annotations }));
    assert.equal(asked(), undefined);
    assert.equal(asked({ [alias]: "lc" }), "lc");
    assert.equal(asked({ [alias]: "lc", [scheduler]: "sed" }), "sed");
    assert.equal(asked({ [scheduler]: "../etc" }), undefined);
  });
});
