import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Logger } from "../../../../src/base/log.ts";
import { parseJson } from "../../../../src/base/parse-json.ts";
import { type LogOptions, LogWriter } from "../../../../src/daemon/log/log-writer.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import fc from "../../../support/fast-check.ts";

/** klog prints local time, so the test does, too. */
const moment = new Date(2026, 0, 2, 15, 4, 5, 678).getTime();

function writing(
  use: (log: Logger) => void,
  options: Partial<LogOptions> = {},
  clock = new FakeClock(moment),
): readonly string[] {
  const lines: string[] = [];
  const outlet = { clock, pid: 1, write: (line: string) => lines.push(line) };
  use(new LogWriter(outlet, { format: "text", verbosity: 0, ...options }));
  return lines;
}

const head = "0102 15:04:05.678000       1 kube-ipvs:1]";

describe("a text line", () => {
  const cases: readonly (readonly [name: string, use: (log: Logger) => void, want: string])[] = [
    ["of each severity", (log) => log.error("Gone"), `E${head} "Gone"\n`],
    ["as a warning", (log) => log.warn("Odd"), `W${head} "Odd"\n`],
    ["as information", (log) => log.info("Using ipvs Proxier"), `I${head} "Using ipvs Proxier"\n`],
    [
      "with keys in order, and unquoted numbers and booleans",
      (log) => log.info("Done", { ipFamily: "IPv4", count: 3, full: true, none: undefined }),
      `I${head} "Done" ipFamily="IPv4" count=3 full=true none=undefined\n`,
    ],
    [
      "with only an error's message",
      (log) => log.error("Failed", { err: new Error("EBUSY\n  at x") }),
      `E${head} "Failed" err="EBUSY; at x"\n`,
    ],
    [
      "with objects and big numbers as JSON",
      (log) => log.info("Seen", { list: ["a", 1n], size: 2n ** 64n }),
      `I${head} "Seen" list=["a","1"] size=18446744073709551616\n`,
    ],
    [
      "that a line break cannot forge",
      (log) => log.warn("Refused", { subject: 'a"\nE0102 15:04:05.000000 1 x:1] "ok\r' }),
      `W${head} "Refused" subject="a\\"\\nE0102 15:04:05.000000 1 x:1] \\"ok\\r"\n`,
    ],
    [
      "without terminal escapes and text direction changes",
      (log) => log.warn("Refused", { subject: "\u001b[2J\u009b\u202ex\u2028\u{e0001}" }),
      `W${head} "Refused" subject="\\u001b[2J\\u009b\\u202ex\\u2028\\udb40\\udc01"\n`,
    ],
  ];
  for (const [name, use, want] of cases) {
    it(name, () => assert.deepEqual(writing(use), [want]));
  }

  it("is written for every value", () => {
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    const [line = ""] = writing((log) => log.info("x", { cycle, f: () => 1, s: Symbol("a") }));
    assert.match(
      line,
      /cycle="\(Converting circular structure to JSON.*\)" f="\(\) => 1" s="Symbol\(a\)"\n$/,
    );
  });

  it("has a limited length for hostile values", () => {
    const [line = ""] = writing((log) => log.warn("Refused", { subject: "x".repeat(1e6) }));
    assert.ok(line.length < 2_200);
    assert.match(line, /… \(1000000 characters\)"\n$/);
  });

  it("is printed at its verbosity and higher", () => {
    const use = (log: Logger): void => {
      log.verbose(2, "two");
      log.verbose(3, "three");
    };
    assert.deepEqual(writing(use, { verbosity: 2 }), [`I${head} "two"\n`]);
  });

  it("contains the keys of its logger", () => {
    const use = (log: Logger): void => log.with({ a: 1 }).with({ b: 2 }).info("x", { c: 3 });
    assert.deepEqual(writing(use), [`I${head} "x" a=1 b=2 c=3\n`]);
  });
});

describe("a JSON line", () => {
  const one = (use: (log: Logger) => void): unknown => {
    const [line = ""] = writing(use, { format: "json", verbosity: 4 });
    assert.match(line, /^\{"ts":[^\n]*\}\n$/);
    return parseJson(line);
  };

  it("has the keys of Kubernetes' components", () => {
    const found = one((log) => log.error("Failed", { err: new Error("EBUSY"), n: 1 }));
    assert.deepEqual(found, {
      ts: moment,
      level: "error",
      v: 0,
      msg: "Failed",
      err: "EBUSY",
      n: 1,
    });
  });

  it("contains its verbosity", () => {
    assert.deepEqual(
      one((log) => log.verbose(4, "Deep")),
      { ts: moment, level: "info", v: 4, msg: "Deep" },
    );
  });

  it("keeps its fixed keys regardless of the other keys' names", () => {
    const found = one((log) => log.info("Real", { msg: "forged", ts: 0 }));
    assert.deepEqual(found, { ts: moment, level: "info", v: 0, msg: "Real" });
  });

  it("escapes characters that JSON would allow", () => {
    const [line = ""] = writing((log) => log.info("x", { a: "\u202e\u2028\n" }), {
      format: "json",
    });
    assert.match(line, /"a":"\\u202e\\u2028\\n"/);
  });
});

describe("a flood", () => {
  it("of one problem is limited to ten lines and a count per minute, for all subjects together", async () => {
    const clock = new FakeClock(moment);
    const lines = writing(
      (log) => {
        const named = log.with({ source: "api" });
        for (let index = 0; index < 1_000; index += 1) {
          named.warn("Refused", { reason: "invalid-port", subject: `ns/${index}` });
        }
        log.warn("Refused", { reason: "other" });
        for (let index = 0; index < 12; index += 1) log.info("Refused");
      },
      {},
      clock,
    );
    assert.equal(lines.length, 21);
    await clock.advance(60_000);
    assert.equal(lines.length, 23);
    assert.match(
      lines[21] ?? "",
      /^W.* "Suppressed similar messages" of="Refused" reason="invalid-port" count=990\n$/,
    );
  });

  it("of info lines is not limited from verbosity 2", () => {
    const flood = (log: Logger): void => {
      for (let index = 0; index < 12; index += 1) log.info("Drained");
    };
    assert.equal(writing(flood, { verbosity: 1 }).length, 10);
    assert.equal(writing(flood, { verbosity: 2 }).length, 12);
  });

  it("that continues is reported each minute, and the next line after silence is written immediately", async () => {
    const clock = new FakeClock(moment);
    const lines: string[] = [];
    const outlet = { clock, pid: 1, write: (line: string) => lines.push(line) };
    const log = new LogWriter(outlet, { format: "text", verbosity: 0 });
    const flood = (): void => {
      for (let index = 0; index < 15; index += 1) log.error("Broken");
    };
    flood();
    await clock.advance(60_000);
    flood();
    await clock.advance(120_000);
    assert.equal(lines.filter((line) => line.includes("count=5")).length, 2);
    assert.equal(clock.pendingTimers, 0);
    log.error("Broken");
    assert.equal(lines.length, 23);
  });

  it("of constantly new reasons cannot exhaust memory", async () => {
    const clock = new FakeClock(moment);
    const lines = writing(
      (log) => {
        for (let index = 0; index < 5_000; index += 1) log.warn("Odd", { reason: `r${index}` });
      },
      {},
      clock,
    );
    assert.ok(lines.length <= 510, `${lines.length} lines`);
    assert.ok(clock.pendingTimers <= 501);
    await clock.advance(60_000);
    assert.match(lines.at(-1) ?? "", /of="Odd" count=44\d\d/);
  });
});

describe("any value", () => {
  const anyText = fc.string({ unit: "binary", maxLength: 60 });
  const anyValue = fc.oneof(anyText, fc.anything({ withBigInt: true, withDate: true }));

  for (const format of ["text", "json"] as const) {
    it(`stays within its ${format} line and cannot affect a terminal`, () => {
      fc.assert(
        fc.property(anyText, anyValue, (event, value) => {
          const lines = writing((log) => log.warn(event, { subject: value }), { format });
          assert.equal(lines.length, 1);
          const [line = ""] = lines;
          assert.equal(line.indexOf("\n"), line.length - 1);
          assert.doesNotMatch(line.slice(0, -1), /[\p{Cc}\p{Cf}\u2028\u2029]/u);
          if (format === "json") parseJson(line);
        }),
      );
    });
  }
});

it("the verbosity can change while the program runs, also for existing loggers", () => {
  const lines: string[] = [];
  const outlet = {
    clock: new FakeClock(moment),
    pid: 1,
    write: (line: string) => lines.push(line),
  };
  const log = new LogWriter(outlet, { format: "text", verbosity: 0 });
  const child = log.with({ resource: "nodes" });
  child.verbose(2, "Before");
  log.setVerbosity(2);
  child.verbose(2, "After");
  child.verbose(3, "Too much");
  assert.deepEqual(lines, [`I${head} "After" resource="nodes"\n`]);
});
