/** The cost of a periodic verification. */
import { setTimeout as pause } from "node:timers/promises";
import type { ApiServer } from "../support/api-server/api-server.ts";
import type { CaseContext } from "./case.ts";
import type { Machine } from "./machine.ts";
import { ourCommand, quietFlags, Subject } from "./subject.ts";

/** The cost does not depend on the period, so the test uses a short one. */
const verificationFlags = quietFlags.map((flag) =>
  flag.startsWith("--kube-ipvs-verification-period") ? "--kube-ipvs-verification-period=5s" : flag,
);
const watchedVerifications = 3;
const verificationTimeoutMs = 240_000;

/** CPU time of one verification period that finds nothing to do, in a restarted daemon. */
export async function measureVerification(
  machine: Machine,
  server: ApiServer,
  context: CaseContext,
): Promise<number> {
  context.step("restart, to measure verifications");
  const subject = await Subject.start(machine, ourCommand(server.url, verificationFlags));
  await subject.hasSynced();
  const first = await verificationsReach(subject, 1);
  const before = await subject.figures();
  context.step("verifications");
  const last = await verificationsReach(subject, first + watchedVerifications);
  const after = await subject.figures();
  await subject.end();
  return (after.cpuMs - before.cpuMs) / (last - first);
}

/**
 * Each verification period ends with a partial sync. There are no other partial syncs, because nothing changes. Returns
 * their number.
 */
export async function verificationsReach(subject: Subject, count: number): Promise<number> {
  const deadlineMs = performance.now() + verificationTimeoutMs;
  for (;;) {
    const syncs = await subject.metric("kube_ipvs_sync_runs_total", 'kind="partial"');
    if (syncs >= count) return syncs;
    if (performance.now() > deadlineMs)
      throw new Error(`timed out after ${syncs} of ${count} syncs`);
    await pause(1_000);
  }
}
