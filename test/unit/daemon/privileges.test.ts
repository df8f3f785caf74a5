import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  checkCapabilities,
  MissingCapabilityError,
} from "../../../src/daemon/process/capabilities.ts";
import { writeOomScore } from "../../../src/daemon/process/oom-score.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { RecordingLogger } from "../../support/recording-logger.ts";

describe("checkCapabilities", () => {
  const cases: readonly (readonly [name: string, capEff: string, isEnough: boolean])[] = [
    ["root's", "000001ffffffffff", true],
    ["a container's default set", "00000000a80425fb", false],
    ["NET_ADMIN alone", "0000000000001000", true],
    ["NET_RAW alone", "0000000000002000", false],
    ["none", "0000000000000000", false],
  ];
  for (const [name, capEff, isEnough] of cases) {
    it(`${isEnough ? "accepts" : "rejects"} ${name}`, () => {
      const check = (): void =>
        checkCapabilities(() => `Name:\tnode\nCapPrm:\t000001ffffffffff\nCapEff:\t${capEff}\n`);
      if (isEnough) check();
      else assert.throws(check, MissingCapabilityError);
    });
  }

  it("names the missing capability and the remedy", () => {
    assert.throws(() => checkCapabilities(() => "CapEff:\t0\n"), new MissingCapabilityError());
    assert.equal(
      new MissingCapabilityError().message,
      "Cannot change the node's network: missing capability NET_ADMIN; run as root, or in a container with securityContext.capabilities.add: [NET_ADMIN, NET_RAW]",
    );
  });

  it("accepts the process if /proc does not show capabilities", () => {
    checkCapabilities(() => "Name:\tnode\n");
  });
});

describe("writeOomScore", () => {
  async function attempt(failures: number): Promise<{ texts: string[]; log: RecordingLogger }> {
    const texts: string[] = [];
    const clock = new FakeClock();
    const log = new RecordingLogger();
    const written = writeOomScore(-999, { clock, log }, (path, text) => {
      texts.push(`${path} ${text}`);
      if (texts.length <= failures) throw new Error("EACCES: permission denied");
    });
    await clock.advance(100);
    await written;
    return { texts, log };
  }
  const line = "/proc/self/oom_score_adj -999";

  it("writes the score once", async () => {
    assert.deepEqual((await attempt(0)).texts, [line]);
  });

  it("tries again after 100 ms", async () => {
    const { texts, log } = await attempt(1);
    assert.deepEqual(texts, [line, line]);
    assert.deepEqual(log.lines, []);
  });

  it("continues after a failure, which is logged only at a higher verbosity", async () => {
    const { texts, log } = await attempt(2);
    assert.deepEqual(texts, [line, line]);
    assert.deepEqual(
      log.lines.map(({ level, event }) => [level, event]),
      [["verbose", "Cannot set OOM score adjustment"]],
    );
  });
});
