/** Refused changes: when each is retried, when it begins and ends. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { errno } from "../../../src/base/errno.ts";
import { IptablesError } from "../../../src/kernel/iptables/errors.ts";
import { NetlinkError } from "../../../src/netlink/errors.ts";
import { setFor } from "../../../src/plan/sets.ts";
import { OutcomeCollector } from "../../../src/reconcile/apply/outcome.ts";
import type { Change } from "../../../src/reconcile/change.ts";
import { type ChangePlan, emptyPlan } from "../../../src/reconcile/change-plan.ts";
import { countRefusals, Refusals } from "../../../src/reconcile/refusals.ts";
import { Scope } from "../../../src/reconcile/scope.ts";
import { subjectKey, subjectOf } from "../../../src/reconcile/subject.ts";
import { addressPortEntry } from "../../../src/state/set-entry.ts";
import { ip } from "../../support/records.ts";

const virtualServer = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;
const server = "TCP 10.96.0.10:80";

function realServer(address: string): Change {
  const after = { address: ip(address), port: 8080, weight: 1, forwardingMethod: 0 };
  return { kind: "real-server-create", key: server, virtualServer, after, reason: "missing" };
}

const change = realServer("10.244.2.255");
const key = subjectKey(subjectOf(change));
const address: Change = { kind: "address-add", address: ip("10.96.0.10"), reason: "missing" };
const entry: Change = {
  kind: "entry-add",
  set: setFor("clusterIp", "IPv4"),
  entry: addressPortEntry(ip("10.96.0.10"), "TCP", 80),
  reason: "missing",
};

function refusedWith(code: number): Error {
  return new NetlinkError({ operation: "create", subject: server, errno: code });
}

function scopeOf(...subjects: readonly Change[]): Scope {
  const scope = new Scope();
  for (const each of subjects) scope.includeSubject(subjectOf(each));
  return scope;
}

const secondMs = 1_000;

let refusals: Refusals;
let nowMs: number;

beforeEach(() => {
  refusals = new Refusals();
  nowMs = 0;
});

interface Sync {
  readonly refused?: readonly (readonly [Change, Error])[];
  readonly blocked?: readonly Change[];
  readonly withdrawn?: readonly Change[];
  readonly deferred?: ChangePlan["deferred"];
  /** Planned and done. */
  readonly done?: readonly Change[];
  readonly scope?: Scope;
}

/** Notes a sync of these outcomes; gives what it reports. */
function note({
  refused = [],
  blocked = [],
  withdrawn = [],
  deferred = [],
  done = [],
  scope,
}: Sync) {
  const outcomes = new OutcomeCollector();
  for (const [each, error] of refused) outcomes.refused.push({ change: each, error });
  outcomes.blocked.push(...blocked);
  outcomes.withdrawn.push(...withdrawn);
  const changes = [...done, ...refused.map(([each]) => each), ...blocked];
  const planned = [...changes, ...deferred.map((one) => one.change)];
  const plan = { ...emptyPlan, changes, deferred, servicesOf: () => ["default/a"] };
  refusals.note(outcomes, { scope: scope ?? scopeOf(...planned), planned, plan }, nowMs);
  return refusals.takeReport();
}

const einval = refusedWith(errno.EINVAL);

describe("a refused change", () => {
  it("is retried with back-off, each pause twice the one before, five minutes at most", () => {
    const pauses: number[] = [];
    for (let attempt = 0; attempt < 11; attempt += 1) {
      note({ refused: [[change, einval]] });
      const dueMs = refusals.nextDueMs ?? 0;
      pauses.push((dueMs - nowMs) / secondMs);
      nowMs = dueMs;
    }
    assert.deepEqual(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
  });

  it("waits until it is due, and is in the scope of each sync, to hold up what depends on it", () => {
    note({ refused: [[change, einval]] });
    const includes = (): boolean => {
      const scope = new Scope();
      refusals.includeIn(scope);
      return scope.virtualServers?.has(server) ?? true;
    };
    nowMs = 999;
    assert.deepEqual([refusals.isWaiting(key, nowMs), includes()], [true, true]);
    nowMs = 1_000;
    assert.deepEqual([refusals.isWaiting(key, nowMs), includes()], [false, true]);
  });

  it("holds up nothing else", () => {
    note({ refused: [[change, einval]] });
    const other = subjectKey(subjectOf(realServer("10.244.2.11")));
    assert.equal(refusals.isWaiting(other, nowMs), false);
  });

  it("is reported once when it begins, with its Services, and stays present", () => {
    const first = note({ refused: [[change, einval]] });
    assert.deepEqual(
      first.begun.map(({ subject, kind, reason, services, sinceMs, attempts }) => {
        return { subject, kind, reason, services, sinceMs, attempts };
      }),
      [
        {
          subject: subjectOf(change),
          kind: "real-server-create",
          reason: "EINVAL",
          services: ["default/a"],
          sinceMs: 0,
          attempts: 1,
        },
      ],
    );
    nowMs = secondMs;
    const second = note({ refused: [[change, einval]] });
    assert.deepEqual([second.begun, second.ended], [[], []]);
    const [present] = second.present;
    assert.deepEqual([present?.sinceMs, present?.attempts], [0, 2]);
  });

  it("is counted once, however many of its changes were refused in a sync", () => {
    const [present] = note({
      refused: [
        [change, einval],
        [change, einval],
      ],
    }).present;
    assert.equal(present?.attempts, 1);
  });

  it("ends when it was done", () => {
    note({ refused: [[change, einval]] });
    nowMs = secondMs;
    const { ended, present } = note({ done: [change] });
    assert.deepEqual([ended.length, present, refusals.nextDueMs], [1, [], undefined]);
    assert.equal(ended[0]?.reason, "EINVAL");
  });

  it("ends when it was compared and is needed no more", () => {
    note({ refused: [[change, einval]] });
    const { ended } = note({ scope: scopeOf(change) });
    assert.equal(ended.length, 1);
  });

  it("does not end while a request of unknown outcome may have been about it", () => {
    note({ refused: [[change, einval]] });
    nowMs = secondMs;
    const outcomes = new OutcomeCollector();
    const first = subjectOf(change);
    outcomes.unknown.push({
      kind: change.kind,
      first,
      count: 1,
      error: refusedWith(errno.ENOBUFS),
    });
    const plan = { ...emptyPlan, changes: [change] };
    refusals.note(outcomes, { scope: scopeOf(change), planned: [change], plan }, nowMs);
    const { ended, present } = refusals.takeReport();
    assert.deepEqual([ended, present.length, refusals.nextDueMs], [[], 1, 2 * secondMs]);
  });

  it("does not end in a sync that did not compare it, nor while it waits", () => {
    note({ refused: [[change, einval]] });
    assert.deepEqual(note({ scope: scopeOf(address) }).ended, []);
    assert.deepEqual(note({ deferred: [{ change, reason: "refused" }] }).ended, []);
    assert.equal(note({}).present.length, 1);
  });

  it("starts with the first pause again after it ended", () => {
    note({ refused: [[change, einval]] });
    nowMs = secondMs;
    note({ refused: [[change, einval]] });
    note({ done: [change] });
    assert.equal(note({ refused: [[change, einval]] }).begun.length, 1);
    assert.equal(refusals.nextDueMs, nowMs + secondMs);
  });
});

const contradicting: readonly (readonly [name: string, error: Error])[] = [
  ["EEXIST", refusedWith(errno.EEXIST)],
  ["ENOENT", refusedWith(errno.ENOENT)],
  ["ESRCH", refusedWith(errno.ESRCH)],
  ["ENODEV", refusedWith(errno.ENODEV)],
  [
    "exit-2",
    new IptablesError(
      { action: "write rules", family: "IPv4", program: "iptables-restore" },
      { exitCode: 2, output: "", errorOutput: "" },
    ),
  ],
];
for (const [reason, error] of contradicting) {
  describe(`a refusal that contradicts the cache, ${reason},`, () => {
    it("is due at once and silent at first", () => {
      const { begun, present } = note({ refused: [[change, error]] });
      assert.deepEqual([begun, present], [[], []]);
      assert.equal(refusals.nextDueMs, nowMs);
      assert.equal(refusals.isWaiting(key, nowMs), false);
    });

    it("ends silently", () => {
      note({ refused: [[change, error]] });
      assert.deepEqual(note({ done: [change] }), { begun: [], ended: [], present: [] });
      assert.equal(refusals.nextDueMs, undefined);
    });

    it("is reported and waits when it persists, since the first one", () => {
      note({ refused: [[change, error]] });
      nowMs = 10;
      const { begun } = note({ refused: [[change, error]] });
      assert.deepEqual(
        begun.map((one) => [one.reason, one.sinceMs, one.attempts]),
        [[reason, 0, 2]],
      );
      assert.ok((refusals.nextDueMs ?? 0) > nowMs);
      nowMs = 5_000;
      assert.equal(note({ done: [change] }).ended.length, 1);
    });
  });
}

describe("what waits for a refused change", () => {
  for (const [name, sync] of [
    ["was not tried after it", { blocked: [address] }],
    ["was withdrawn for it", { withdrawn: [address] }],
  ] as const) {
    it(`is compared with it, due or not: ${name}`, () => {
      note({ refused: [[entry, einval]], ...sync });
      const scope = new Scope();
      refusals.includeIn(scope);
      assert.ok(scope.addresses?.has(ip("10.96.0.10")));
      assert.ok(scope.setEntries?.get("KUBE-CLUSTER-IP")?.size === 1);
    });
  }

  it("stays known over a sync of something else", () => {
    note({ refused: [[entry, einval]], blocked: [address] });
    note({ done: [change] });
    const scope = new Scope();
    refusals.includeIn(scope);
    assert.ok(scope.setEntries?.get("KUBE-CLUSTER-IP")?.size === 1);
    assert.ok(scope.addresses?.has(ip("10.96.0.10")));
  });
});

it("what waits for a suppressed repair is known until it was compared, though nothing is refused", () => {
  const blocked = { blocked: [address] };
  const isIncluded = (): boolean => {
    const scope = new Scope();
    refusals.includeIn(scope);
    return scope.addresses?.has(ip("10.96.0.10")) ?? true;
  };
  note(blocked);
  note({ done: [change] });
  assert.equal(isIncluded(), true);
  note({ done: [address] });
  assert.equal(isIncluded(), false);
});

describe("countRefusals", () => {
  it("counts what is refused by kind of object and reason", () => {
    const { present } = note({
      refused: [
        [change, einval],
        [realServer("10.244.3.255"), einval],
        [realServer("10.244.4.255"), refusedWith(errno.EBUSY)],
        [address, einval],
      ],
    });
    assert.deepEqual(countRefusals(present), [
      { type: "real-server", reason: "EINVAL", count: 2 },
      { type: "real-server", reason: "EBUSY", count: 1 },
      { type: "address", reason: "EINVAL", count: 1 },
    ]);
    assert.deepEqual(countRefusals([]), []);
  });
});
