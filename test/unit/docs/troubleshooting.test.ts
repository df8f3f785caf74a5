/** Tests that docs/troubleshooting.md describes each problem that `status` may report, in the same words. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { toServiceName } from "../../../src/base/service-name.ts";
import { problemsOf } from "../../../src/daemon/operator/verdict.ts";
import { ApiContact } from "../../../src/daemon/report/api-contact.ts";
import { ProxyHealth } from "../../../src/daemon/report/proxy-health.ts";
import { SyncHistory } from "../../../src/daemon/report/sync-history.ts";
import { rowsOf } from "../../support/documents/named-tests.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { silentMetrics } from "../../support/silent-metrics.ts";

const page = readFileSync(join(import.meta.dirname, "../../../docs/troubleshooting.md"), "utf8");

/** Texts in backquotes in the first cells. `…` matches any text. */
const shown: readonly RegExp[] = rowsOf(page.split("\n")).flatMap(([cell = ""]) =>
  [...cell.matchAll(/`([^`]+)`/g)].map(([, text = ""]) => {
    const literal = text.replaceAll(/[()|.?*+]/g, "\\$&");
    return new RegExp(literal.replaceAll("…", ".*"));
  }),
);

const clock = new FakeClock();
const kinds = ["nodes", "services", "endpointslices"] as const;

function listed(...those: readonly (typeof kinds)[number][]): ProxyHealth {
  const health = new ProxyHealth(clock, 60_000);
  for (const kind of those) health.listed(kind);
  return health;
}

const ready = listed(...kinds);
ready.updated("IPv4");
const overdue = listed(...kinds);
overdue.updated("IPv4");
overdue.queued("IPv4");
await clock.advance(60_000);

function messages(
  change: (history: SyncHistory) => void,
  { health = ready, apiContact = new ApiContact(clock, silentMetrics) } = {},
): readonly string[] {
  const history = new SyncHistory(clock);
  change(history);
  const evidence = { health, apiContact, history, startedAtMs: 0 };
  return problemsOf({ ...evidence, secondsSince: () => 1 }).map(({ message }) => message);
}

const link = { kind: "link", subject: { type: "link", link: "kube-ipvs0" } } as const;

const rejection: SyncHistory["rejections"][number] = {
  ...{ subject: link.subject, kind: "link-create", reason: "EINVAL", error: new Error("EINVAL") },
  ...{ services: [], sinceMs: 0, attempts: 1, dueMs: 1_000, isDrainEnd: false, isReported: true },
};

function conflict(
  reason: "foreign-virtual-server" | "claimed-by-another-service",
): SyncHistory["conflicts"][number] {
  const texts = {
    key: "TCP 10.96.0.10:80",
    event: "",
    service: toServiceName("default/web"),
    note: "",
  };
  return { ...texts, reason, keys: {}, remedy: "", sinceMs: 0 };
}

function contact(code: string): ApiContact {
  const made = new ApiContact(clock, silentMetrics);
  made.apiRequestAnswered("GET", "10.0.0.1:6443", code);
  return made;
}

const nothing = (): void => {};

const problems: readonly string[] = [
  ...messages(nothing, { health: listed("nodes") }),
  ...messages(nothing, { health: listed(...kinds) }),
  ...messages(nothing, { health: overdue }),
  ...messages(nothing, { apiContact: contact("<error>") }),
  ...messages(nothing, { apiContact: contact("403") }),
  ...messages((history) => {
    history.failing = { sinceMs: 0, message: "Cannot list virtual servers" };
  }),
  ...messages((history) => {
    history.rejections = [rejection];
  }),
  ...messages((history) => {
    history.rejections = [rejection, rejection];
  }),
  ...messages((history) => {
    history.conflicts = [conflict("foreign-virtual-server")];
  }),
  ...messages((history) => {
    history.conflicts = [conflict("claimed-by-another-service")];
  }),
  ...messages((history) => {
    history.reverted = [{ ...link, driftCount: 4, pauseMs: 1_000, pausedUntilMs: 0 }];
  }),
];

describe("the troubleshooting table of status messages", () => {
  it("is compared with every message", () => assert.equal(problems.length, 11));

  for (const message of problems) {
    it(`has a row for: ${message}`, () => {
      assert.ok(shown.some((pattern) => pattern.test(message)));
    });
  }

  it("is rejected by this test if a message has no row", () => {
    assert.ok(!shown.some((pattern) => pattern.test("The moon is full")));
  });
});
