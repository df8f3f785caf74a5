import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import type { Clock } from "../../../../src/base/clock.ts";
import { type ServiceAddress, serviceAddress } from "../../../../src/base/service-name.ts";
import {
  drainStartTimesIn,
  rampStartTimesIn,
} from "../../../../src/daemon/process/drain-start-times.ts";
import { modeRecordIn } from "../../../../src/daemon/process/mode-record.ts";
import { ownershipRecordIn } from "../../../../src/daemon/process/ownership-record.ts";
import { type BootClock, openState } from "../../../../src/daemon/process/state-file.ts";
import { type Drain, drainKey } from "../../../../src/reconcile/drain/drains.ts";
import { toServerKey } from "../../../../src/state/virtual-server.ts";
import { toKey } from "../../../support/keys.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { ip } from "../../../support/records.ts";

const ramp = serviceAddress("default/web", ip("10.244.1.40"));

function drain(host: number, sinceMs: number): Drain {
  return {
    virtualServerKey: toServerKey("TCP 10.96.0.10:80"),
    virtualServer: { protocol: "TCP", address: ip("10.96.0.10"), port: 80 },
    realServer: {
      address: ip(`10.244.${Math.floor(host / 250)}.${(host % 250) + 1}`),
      port: 8080,
      weight: 0,
      forwardingMethod: 0,
    },
    sinceMs,
  };
}

const first = drain(1, 400);

describe("start times of drains in the state file", () => {
  let folder: string;
  let path: string;
  let log: RecordingLogger;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "kube-ipvs-ages-"));
    path = join(folder, "run", "state.json");
    log = new RecordingLogger();
  });

  afterEach(() => rmSync(folder, { recursive: true }));

  /** A program that has run for one second, `uptimeMs` after the machine's boot. */
  function open(uptimeMs: number, { bootId = "boot-1", clock = runningClock(), at = path } = {}) {
    const bootClock: BootClock = { bootId, uptimeMs: () => uptimeMs };
    const state = openState(at, { log, bootClock });
    const clocks = { clock, bootClock };
    const ramps = rampStartTimesIn(state, clocks);
    return { ...drainStartTimesIn(state, clocks), ramps, idle: () => state.idle() };
  }

  function runningClock(nowMs = Date.UTC(2026, 0, 1)): Clock {
    return { nowMs: () => nowMs, monotonicMs: () => 1_000, after: () => () => {} };
  }

  async function kept(drains: readonly Drain[], uptimeMs = 50_000): Promise<void> {
    const ages = open(uptimeMs);
    ages.keep(drains);
    await ages.idle();
  }

  function write(content: string): void {
    mkdirSync(join(folder, "run"), { recursive: true });
    writeFileSync(path, content);
  }

  it("give the next program the start of a drain, converted to that program's clock", async () => {
    await kept([first]);
    // The drain began 600 ms before it was recorded. The next program reads it a minute later, after running for 1 s.
    const next = open(110_000);
    assert.equal(next.recall(drainKey(first)), 1_000 - 600 - 60_000);
    assert.equal(next.whyUnknown, undefined);
    assert.equal(next.recall(drainKey(drain(2, 0))), undefined);
  });

  for (const [name, nowMs] of [
    ["back by a year", Date.UTC(2025, 0, 1)],
    ["ahead by a year", Date.UTC(2027, 0, 1)],
  ] as const) {
    it(`do not depend on the wall clock, even if it jumped ${name}`, async () => {
      await kept([first]);
      const next = open(110_000, { clock: runningClock(nowMs) });
      assert.equal(next.recall(drainKey(first)), -59_600);
    });
  }

  it("are removed when nothing drains, and no file is created without drains", async () => {
    await kept([]);
    assert.deepEqual(readdirSync(folder), []);
    await kept([first]);
    await kept([]);
    assert.equal(existsSync(path), false);
  });

  it("are replaced as a whole with the newest state, without temporary files", async () => {
    const ages = open(50_000);
    for (let turn = 0; turn < 20; turn++) ages.keep([drain(turn, 0)]);
    await ages.idle();
    assert.deepEqual(readdirSync(join(folder, "run")), ["state.json"]);
    assert.notEqual(open(50_000).recall(drainKey(drain(19, 0))), undefined);
    assert.equal(open(50_000).recall(drainKey(drain(18, 0))), undefined);
  });

  it("are kept for the oldest ten thousand drains", async () => {
    const many = Array.from({ length: 12_000 }, (_, index) => drain(index, -index));
    await kept(many);
    assert.ok(readFileSync(path).length < 2 ** 21);
    const next = open(50_000);
    assert.equal(next.recall(drainKey(many[1_999] as Drain)), undefined);
    assert.notEqual(next.recall(drainKey(many[2_000] as Drain)), undefined);
  });

  it("are reported as missing if there is no file", () => {
    assert.equal(open(50_000).whyUnknown, `${path} does not exist`);
  });

  it("are optional", async () => {
    const ages = open(50_000, { at: "" });
    ages.keep([first]);
    await ages.idle();
    assert.equal(ages.whyUnknown, "no state file is configured");
    assert.deepEqual(log.lines, []);
  });

  const good = { version: 1, bootId: "boot-1", beganMs: { [drainKey(first)]: 49_000 } };

  for (const { name, content, reason } of [
    { name: "from another boot", content: { ...good, bootId: "boot-0" }, reason: /earlier boot/ },
    { name: "of a different version", content: { ...good, version: 2 }, reason: /version/ },
    { name: "that is null", content: null, reason: /version/ },
  ]) {
    it(`leave a file ${name} unchanged`, () => {
      write(JSON.stringify(content));
      const ages = open(50_000);
      assert.match(ages.whyUnknown ?? "", reason);
      assert.equal(ages.recall(drainKey(first)), undefined);
    });
  }

  it("leave a file unchanged if the boot is unknown", () => {
    write(JSON.stringify({ ...good, bootId: "" }));
    assert.match(open(50_000, { bootId: "" }).whyUnknown ?? "", /earlier boot/);
  });

  it("are ignored individually if they are invalid", () => {
    const beganMs = { a: -1, b: 50_001, c: "1", d: null, e: 50_000, f: 0 };
    write(JSON.stringify({ ...good, beganMs }));
    const ages = open(50_000);
    const known = Object.keys(beganMs).filter((key) => ages.recall(toKey(key)) !== undefined);
    assert.deepEqual(known, ["e", "f"]);
  });

  it("can be truncated at any byte", async () => {
    await kept([first]);
    const whole = readFileSync(path);
    for (let length = 0; length < whole.length; length++) {
      writeFileSync(path, whole.subarray(0, length));
      assert.notEqual(open(50_000).whyUnknown, undefined, `${length} bytes`);
    }
  });

  it("tolerate a file that is too large, a folder, a pipe and a link in its place", () => {
    write("x".repeat(2 ** 23 + 1));
    assert.match(open(50_000).whyUnknown ?? "", /larger than 8388608 bytes/);
    rmSync(path);
    mkdirSync(path);
    assert.match(open(50_000).whyUnknown ?? "", /not a regular file/);
    rmSync(path, { recursive: true });
    execFileSync("mkfifo", [path]);
    assert.match(open(50_000).whyUnknown ?? "", /not a regular file/);
    rmSync(path);
    symlinkSync("/etc/hostname", path);
    assert.match(open(50_000).whyUnknown ?? "", /ELOOP/);
  });

  it("report a failed write once, and again after a successful one", async () => {
    const ages = open(50_000);
    const told = (): number => log.lines.length;
    writeFileSync(join(folder, "run"), "a file where the folder belongs");
    for (const since of [1, 2, 3]) {
      ages.keep([drain(1, since)]);
      await ages.idle();
    }
    assert.equal(told(), 1);
    assert.equal(log.lines[0]?.level, "info");
    assert.match(String(log.lines[0]?.keys["err"]), /EEXIST|ENOTDIR/);
    rmSync(join(folder, "run"));
    ages.keep([first]);
    await ages.idle();
    assert.equal(existsSync(path), true);
    rmSync(join(folder, "run"), { recursive: true });
    writeFileSync(join(folder, "run"), "");
    ages.keep([drain(1, 4)]);
    await ages.idle();
    assert.equal(told(), 2);
  });

  it("do not keep an old record if the new one cannot be written", async () => {
    const ages = open(50_000);
    ages.keep([first]);
    await ages.idle();
    // From now on, the temporary file cannot be written.
    mkdirSync(`${path}.new`);
    ages.keep([drain(1, 1)]);
    await ages.idle();
    assert.equal(existsSync(path), false);
    assert.equal(log.lines.length, 1);
  });

  describe("after an upgrade from 0.2, which had one file per record", () => {
    const oldFiles = {
      "drains.json": { beganMs: { [drainKey(first)]: 49_000 } },
      "drains-ownership.json": { owned: ["TCP 192.168.10.11:30080"], foreign: [] },
      "drains-modes.json": { modes: ["iptables"] },
    };

    beforeEach(() => {
      for (const [name, content] of Object.entries(oldFiles)) {
        const text = JSON.stringify({ version: 1, bootId: "boot-1", ...content });
        write("");
        writeFileSync(join(folder, "run", name), text);
      }
      rmSync(path);
    });

    const openFile = () =>
      openState(path, { log, bootClock: { bootId: "boot-1", uptimeMs: () => 50_000 } });

    it("reads the files once, and replaces them with one file", async () => {
      assert.equal(open(50_000).recall(drainKey(first)), 0);
      const state = openFile();
      assert.deepEqual([...ownershipRecordIn(state).recorded.owned], ["TCP 192.168.10.11:30080"]);
      await modeRecordIn(state).begin("ipvs");
      await state.idle();
      assert.deepEqual(readdirSync(join(folder, "run")), ["state.json"]);
      const next = openFile();
      assert.deepEqual([...modeRecordIn(next).earlier].sort(), ["iptables", "ipvs"]);
      assert.deepEqual([...ownershipRecordIn(next).recorded.owned], ["TCP 192.168.10.11:30080"]);
      assert.equal(open(50_000).recall(drainKey(first)), 0);
    });

    it("leaves none of the files if the new file cannot be written", async () => {
      mkdirSync(`${path}.new`);
      const state = openFile();
      await modeRecordIn(state).begin("ipvs");
      await state.idle();
      assert.deepEqual(readdirSync(join(folder, "run")), ["state.json.new"]);
    });

    it("changes nothing if it only reads", async () => {
      const bootClock = { bootId: "boot-1", uptimeMs: () => 50_000 };
      const state = openState(path, { log, bootClock, isReadOnly: true });
      await modeRecordIn(state).begin("ipvs");
      await state.idle();
      assert.deepEqual(readdirSync(join(folder, "run")).sort(), Object.keys(oldFiles).sort());
    });
  });

  it("writes every section again after a failed write", async () => {
    const ages = open(50_000);
    ages.ramps.keep(new Map([[ramp, 500]]));
    await ages.idle();
    mkdirSync(`${path}.new`);
    ages.keep([first]);
    await ages.idle();
    rmSync(`${path}.new`, { recursive: true });
    ages.keep([first]);
    await ages.idle();
    const next = open(50_000);
    assert.equal(next.recall(drainKey(first)), 400);
    assert.equal(next.ramps.recall(ramp), 500);
  });

  it("keeps start times of growing weights and of drains separate", async () => {
    const file = open(100_000);
    file.keep([first]);
    file.ramps.keep(new Map([[ramp, 500]]));
    await file.idle();
    const later = open(101_000);
    assert.equal(later.ramps.recall(ramp), -500);
    assert.equal(later.ramps.recall(serviceAddress("default/web", ip("10.244.1.41"))), undefined);
    later.keep([]);
    await later.idle();
    assert.equal(open(102_000).ramps.recall(ramp), -1_500);
    later.ramps.keep(new Map());
    await later.idle();
    assert.equal(existsSync(path), false);
  });

  it("stays readable regardless of the number of growing weights", async () => {
    const service = `${"n".repeat(63)}/${"s".repeat(63)}`;
    const names = Array.from({ length: 20_000 }, (_, index) =>
      toKey<ServiceAddress>(`${service} ${index}`),
    );
    const file = open(100_000);
    file.ramps.keep(new Map(names.map((name) => [name, 500])));
    await file.idle();
    const later = open(100_000);
    assert.equal(later.whyUnknown, undefined);
    assert.equal(later.ramps.recall(names[0] as ServiceAddress), 500);
  });
});
