/** Tests at what times a rejected change is retried, and when its rejection starts and ends. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { errno } from "../../../../src/base/errno.ts";
import { IptablesError } from "../../../../src/kernel/iptables/errors.ts";
import { NetlinkError } from "../../../../src/netlink/errors.ts";
import { setFor } from "../../../../src/plan/sets.ts";
import { Outcomes } from "../../../../src/reconcile/apply/outcome.ts";
import type { Change } from "../../../../src/reconcile/change.ts";
import { type ChangePlan, emptyPlan } from "../../../../src/reconcile/change-plan.ts";
import { subjectOf } from "../../../../src/reconcile/kinds/kinds.ts";
import { Scope } from "../../../../src/reconcile/scope.ts";
import { noteDrifts } from "../../../../src/reconcile/status/repairs.ts";
import { StatusTable } from "../../../../src/reconcile/status/status-table.ts";
import { addressPortEntry } from "../../../../src/state/set-entry.ts";
import { toServerKey } from "../../../../src/state/virtual-server.ts";
import { ip } from "../../../support/records.ts";

const virtualServer = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;
const server = toServerKey("TCP 10.96.0.10:80");

function realServer(address: string): Change {
  const after = { address: ip(address), port: 8080, weight: 1, forwardingMethod: 0 };
  return { kind: "real-server-create", key: server, virtualServer, after, reason: "missing" };
}

const change = realServer("10.244.2.255");
const address: Change = { kind: "address-add", address: ip("10.96.0.10"), reason: "missing" };
const entry: Change = {
  kind: "entry-add",
  set: setFor("clusterIp", "IPv4"),
  entry: addressPortEntry(ip("10.96.0.10"), "TCP", 80),
  reason: "missing",
};

function rejectedWith(code: number): Error {
  return new NetlinkError({ operation: "create", subject: server, errno: code });
}

const secondMs = 1_000;

let table: StatusTable;
let nowMs: number;

beforeEach(() => {
  table = new StatusTable();
  nowMs = 0;
});

interface Sync {
  readonly refused?: readonly (readonly [Change, Error])[];
  readonly blocked?: readonly Change[];
  readonly withdrawn?: readonly Change[];
  readonly deferred?: ChangePlan["deferred"];
  readonly isUnknown?: true;
}

/** Records a sync with these outcomes and returns its report. */
function note({ refused = [], blocked = [], withdrawn = [], deferred = [], isUnknown }: Sync) {
  const outcomes = new Outcomes();
  for (const [each, error] of refused) outcomes.refused.push({ change: each, error });
  outcomes.blocked.push(...blocked);
  outcomes.withdrawn.push(...withdrawn);
  const unknown = { kind: change.kind, first: subjectOf(change), count: 1, error: einval };
  if (isUnknown) outcomes.unknown.push(unknown);
  table.includeIn(new Scope(), nowMs);
  table.note(outcomes, { ...emptyPlan, deferred, servicesOf: () => ["default/a"] }, nowMs);
  return table.rejections;
}

const einval = rejectedWith(errno.EINVAL);

describe("a rejected change", () => {
  it("is retried with back-off: each delay is twice the previous one, up to five minutes", () => {
    const pauses: number[] = [];
    for (let attempt = 0; attempt < 11; attempt += 1) {
      note({ refused: [[change, einval]] });
      const dueMs = table.nextRetryMs ?? 0;
      pauses.push((dueMs - nowMs) / secondMs);
      nowMs = dueMs;
    }
    assert.deepEqual(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
  });

  it("is pending until it is due, and is in the scope of each sync, so that dependents also wait", () => {
    note({ refused: [[change, einval]] });
    const includes = (): boolean => {
      const scope = new Scope();
      table.includeIn(scope, nowMs);
      return scope.virtualServers?.has(server) ?? true;
    };
    nowMs = 999;
    assert.deepEqual([table.isPending(subjectOf(change), nowMs), includes()], [true, true]);
    nowMs = 1_000;
    assert.deepEqual([table.isPending(subjectOf(change), nowMs), includes()], [false, true]);
  });

  it("does not delay other changes", () => {
    note({ refused: [[change, einval]] });
    assert.equal(table.isPending(subjectOf(realServer("10.244.2.11")), nowMs), false);
  });

  it("is reported with its Services while it lasts", () => {
    const first = note({ refused: [[change, einval]] });
    assert.deepEqual(
      first.map(({ subject, kind, reason, services, sinceMs, attempts }) => {
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
    const [present] = note({ refused: [[change, einval]] });
    assert.deepEqual([present?.sinceMs, present?.attempts], [0, 2]);
  });

  it("is counted once per object, regardless of the number of rejected changes in a sync", () => {
    const [present] = note({
      refused: [
        [change, einval],
        [change, einval],
      ],
    });
    assert.equal(present?.attempts, 1);
  });

  it("ends when the change succeeds", () => {
    note({ refused: [[change, einval]] });
    nowMs = secondMs;
    assert.deepEqual([note({}), table.nextRetryMs], [[], undefined]);
  });

  it("does not end while a request with an unknown result may have contained it", () => {
    note({ refused: [[change, einval]] });
    nowMs = secondMs;
    const present = note({ isUnknown: true });
    assert.deepEqual([present.length, table.nextRetryMs], [1, 2 * secondMs]);
  });

  it("does not end while it is pending", () => {
    note({ refused: [[change, einval]] });
    assert.equal(note({ deferred: [{ change, reason: "refused" }] }).length, 1);
    assert.equal(note({ blocked: [change] }).length, 1);
  });

  it("starts with the first delay again after it ended", () => {
    note({ refused: [[change, einval]] });
    nowMs = secondMs;
    note({ refused: [[change, einval]] });
    note({});
    assert.equal(note({ refused: [[change, einval]] })[0]?.attempts, 1);
    assert.equal(table.nextRetryMs, nowMs + secondMs);
  });
});

const contradicting: readonly (readonly [name: string, error: Error])[] = [
  ["EEXIST", rejectedWith(errno.EEXIST)],
  ["ENOENT", rejectedWith(errno.ENOENT)],
  ["ESRCH", rejectedWith(errno.ESRCH)],
  ["ENODEV", rejectedWith(errno.ENODEV)],
  [
    "exit-2",
    new IptablesError(
      { action: "write rules", family: "IPv4", program: "iptables-restore" },
      { exitCode: 2, output: "", errorOutput: "" },
    ),
  ],
];
for (const [reason, error] of contradicting) {
  describe(`a rejection that contradicts the cache, ${reason},`, () => {
    it("is due immediately, and not reported at first", () => {
      assert.deepEqual(note({ refused: [[change, error]] }), []);
      assert.equal(table.nextRetryMs, nowMs);
      assert.equal(table.isPending(subjectOf(change), nowMs), false);
    });

    it("ends without a report", () => {
      note({ refused: [[change, error]] });
      assert.deepEqual(note({}), []);
      assert.equal(table.nextRetryMs, undefined);
    });

    it("is reported and delayed if it persists, starting from the first one", () => {
      note({ refused: [[change, error]] });
      nowMs = 10;
      const present = note({ refused: [[change, error]] });
      assert.deepEqual(
        present.map((one) => [one.reason, one.sinceMs, one.attempts]),
        [[reason, 0, 2]],
      );
      assert.ok((table.nextRetryMs ?? 0) > nowMs);
      nowMs = 5_000;
      assert.deepEqual(note({}), []);
    });
  });
}

for (const [name, sync] of [
  ["was not tried", { blocked: [address] }],
  ["was withdrawn", { withdrawn: [address] }],
] as const) {
  it(`compares a dependent that ${name} in every sync until it is created`, () => {
    note({ refused: [[entry, einval]], ...sync });
    const addresses = () => {
      const scope = new Scope();
      table.includeIn(scope, nowMs);
      return [...(scope.addresses ?? [])];
    };
    assert.deepEqual(addresses(), ["10.96.0.10"]);
    note({});
    assert.deepEqual(addresses(), []);
  });
}

describe("deferred changes", () => {
  const none = {
    virtualServers: new Set<never>(),
    setEntries: new Map(),
    addresses: new Set<never>(),
  };
  const untouched = { ...none, rules: new Set<never>(), formerServices: new Map() };
  const touched = { ...untouched, virtualServers: new Set([server]) };

  it("do not exist if nothing is pending, and the plan is unchanged", () => {
    const planned = [change];
    assert.equal(table.defer(planned, untouched, nowMs).changes, planned);
  });

  it("are those of rejected objects, unless planning touched them", () => {
    note({ refused: [[change, einval]] });
    const { changes, deferred } = table.defer([change, address], untouched, nowMs);
    assert.deepEqual([changes, deferred], [[address], [{ change, reason: "refused" }]]);
    assert.deepEqual(table.defer([change, address], touched, nowMs).deferred, []);
  });

  it("are the real servers of a virtual server whose repair is backing off", () => {
    const subject = { type: "virtual-server", virtualServer: server } as const;
    const drift = { kind: "virtual-server", subject, before: "rr", after: "absent" } as const;
    for (let time = 0; time < 5; time += 1) noteDrifts(table, [drift], nowMs);
    assert.deepEqual(table.defer([change, address], untouched, nowMs).deferred, [
      { change, reason: "reverted" },
    ]);
  });
});
