import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { errno } from "../../../../src/base/errno.ts";
import { BackendWatch } from "../../../../src/daemon/node/backend-watch.ts";
import type { BackendFinding } from "../../../../src/kernel/kernel.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";

const periodMs = 600_000;
const same: BackendFinding = { backend: "legacy", reason: "it has more rules" };
const both: BackendFinding = { ...same, warning: "Both iptables backends have rules" };
const other: BackendFinding = { backend: "nft", reason: "kubelet's chain exists" };

const restart =
  "The node uses the iptables backend nft (kubelet's chain exists), but kube-ipvs uses legacy; exiting to restart with nft";
const bothEvent = "Both iptables backends are in use";

describe("BackendWatch", () => {
  let kernel: FakeKernel;
  let clock: FakeClock;
  let log: RecordingLogger;
  let watch: BackendWatch;
  let ended: string[];
  const fail = ({ message }: Error): void => {
    ended.push(message);
  };

  beforeEach(() => {
    ended = [];
    kernel = new FakeKernel();
    clock = new FakeClock();
    log = new RecordingLogger();
    watch = new BackendWatch(kernel.iptables, { clock, log, fail }, 30_000);
  });

  /** Returns the reports for checks with these findings. */
  async function told(...findings: readonly BackendFinding[]): Promise<readonly string[]> {
    watch.start();
    for (const finding of findings) {
      kernel.iptables.finding = finding;
      await clock.advance(periodMs);
    }
    watch.stop();
    return [...log.lines.map(({ level, event }) => `${level}: ${event}`), ...ended];
  }

  const cases: readonly {
    readonly name: string;
    readonly findings: readonly BackendFinding[];
    readonly want: readonly string[];
  }[] = [
    { name: "nothing while nothing changes", findings: [same, same], want: [] },
    { name: "rules in both once", findings: [same, both, both], want: [bothEvent] },
    {
      name: "a recurring problem again",
      findings: [both, same, both],
      want: [bothEvent, bothEvent],
    },
  ];
  for (const { name, findings, want } of cases) {
    it(`reports ${name}`, async () => {
      const warnings = want.map((event) => `warn: ${event}`);
      assert.deepEqual(await told(...findings), warnings);
    });
  }

  it("stops the program once if the node uses the other backend, which the program then uses after its restart", async () => {
    assert.deepEqual(await told(both, { ...other, warning: "both" }, other), [
      `warn: ${bothEvent}`,
      restart,
    ]);
    assert.equal(clock.pendingTimers, 0);
  });

  it("does not repeat the startup warning", async () => {
    kernel.iptables.choice = both;
    watch = new BackendWatch(kernel.iptables, { clock, log, fail }, 30_000);
    assert.deepEqual(await told(both), []);
  });

  it("checks every ten minutes, or less often if verifications are less frequent", async () => {
    const looks = async (verificationPeriodMs: number): Promise<number> => {
      let count = 0;
      const iptables = {
        backend: "legacy",
        choice: same,
        checkBackend: async () => {
          count += 1;
          return same;
        },
      } as const;
      watch = new BackendWatch(iptables, { clock, log, fail }, verificationPeriodMs);
      watch.start();
      await clock.advance(3_600_000);
      watch.stop();
      return count;
    };
    assert.equal(await looks(30_000), 6);
    assert.equal(await looks(1_800_000), 2);
    assert.equal(clock.pendingTimers, 0);
  });

  it("reports a failed check, and checks again", async () => {
    const isLook = ({ action }: { readonly action: string }): boolean => action === "check-backend";
    kernel.operations.failWhere(isLook, errno.ENOBUFS, 1);
    assert.deepEqual(await told(other, other), [
      "warn: Cannot check the iptables backend",
      restart,
    ]);
  });
});
