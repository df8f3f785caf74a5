import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readTuning, requestedScheduler } from "../../../src/model/annotations.ts";
import type { Tuning } from "../../../src/model/tuning.ts";
import { serviceRecord } from "../../support/records.ts";

const abilities = {
  ...{ missing: new Set<string>(), extra: ["ours"] },
  ...{ hasPortRanges: true, areWeightsRequested: true },
};
const defaults: Tuning = { scheduler: "rr" };

function read(
  annotations: Readonly<Record<string, string>>,
  missing: readonly string[] = [],
): { readonly tuning: Partial<Tuning>; readonly problems: readonly string[] } {
  const service = serviceRecord({ annotations });
  const { tuning, problems } = readTuning(service, defaults, {
    ...abilities,
    missing: new Set(missing),
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
    tuning: { onePacket: true },
    problems: [`${own}one-packet annotation-without-effect`],
  },
  {
    name: "a limit",
    annotations: { [`${own}max-connections`]: "100" },
    tuning: { maxConnections: { upper: 100, lower: 0 } },
  },
  {
    name: "a limit with a lower threshold",
    annotations: { [`${own}max-connections`]: "100, 80" },
    tuning: { maxConnections: { upper: 100, lower: 80 } },
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
    name: "outlier ejection",
    annotations: { [`${own}outlier-ejection`]: "30s" },
    tuning: { outlierEjectionMs: 30_000 },
  },
  ...["4s", "2h", "-1s", "yes"].map((value) => ({
    name: `an invalid outlier ejection: ${value}`,
    annotations: { [`${own}outlier-ejection`]: value },
    problems: [`${own}outlier-ejection invalid-annotation`],
  })),
  {
    name: "outlier ejection with a scheduler that would refuse connections",
    annotations: { [scheduler]: "sh", [`${own}outlier-ejection`]: "30s" },
    tuning: { scheduler: "sh", outlierEjectionMs: 30_000 },
    problems: [`${own}outlier-ejection annotation-without-effect`],
  },
  {
    name: "outlier ejection with a scheduler that chooses another endpoint",
    annotations: {
      [scheduler]: "sh",
      [flags]: "sh-fallback",
      [`${own}outlier-ejection`]: "30s",
    },
    tuning: { scheduler: "sh", schedulerFlags: ["sh-fallback"], outlierEjectionMs: 30_000 },
  },
  {
    name: "weights that the endpoints answer",
    annotations: { [scheduler]: "wrr", [`${own}weights`]: "http=:9100/load?unit=percent" },
    tuning: { scheduler: "wrr", weights: { port: 9100, path: "/load?unit=percent" } },
  },
  ...[
    ...["http=", "http=/", "http=:0/", "http=:65536/", "http=:80", "http=80/", "http=:80/ a"],
    ...["http=:80/#a", "http=:80//..\\", "http=10.0.0.1:80/", "http=:80/\r\nX: y", "https=:80/"],
    `http=:80/${"a".repeat(128)}`,
  ].map((value) => ({
    name: `invalid requests for weights: ${JSON.stringify(value)}`,
    annotations: { [scheduler]: "wrr", [`${own}weights`]: value },
    tuning: { scheduler: "wrr" },
    problems: [`${own}weights invalid-annotation`],
  })),
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
    assert.equal(readTuning(serviceRecord(), defaults, abilities).tuning, defaults);
  });

  it("are ignored if a node setting that they need is not set", () => {
    const annotations = { [`${own}weights`]: "http=:80/", [`${own}port-range`]: "1-2" };
    const service = serviceRecord({ annotations });
    const off = { ...abilities, hasPortRanges: false, areWeightsRequested: false };
    const { tuning, problems } = readTuning(service, { ...defaults, weights: "equal" }, off);
    assert.deepEqual(tuning, { ...defaults, weights: "equal" });
    assert.deepEqual(
      problems.map(({ reason, message }) => [reason, message]),
      [
        ["annotation-without-effect", "kubeIpvs.portRangeMarks is not set"],
        ["annotation-without-effect", "kubeIpvs.weightRequestPeriod is 0s"],
      ],
    );
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
