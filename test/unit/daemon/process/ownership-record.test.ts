import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { toServiceName } from "../../../../src/base/service-name.ts";
import {
  holderRecordIn,
  ownershipRecordIn,
} from "../../../../src/daemon/process/ownership-record.ts";
import { openState } from "../../../../src/daemon/process/state-file.ts";
import { nothingRecorded } from "../../../../src/reconcile/ownership/classify.ts";
import { type ServerKey, toServerKey } from "../../../../src/state/virtual-server.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";

const nodePort = toServerKey("TCP 192.168.10.11:30080");
const foreign = toServerKey("TCP 10.96.0.98:80");

describe("the ownership record", () => {
  let folder: string;
  let path: string;
  let log: RecordingLogger;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "kube-ipvs-ownership-"));
    path = join(folder, "run", "state.json");
    log = new RecordingLogger();
  });

  afterEach(() => rmSync(folder, { recursive: true }));

  const bootClock = (bootId = "boot-1") => ({ bootId, uptimeMs: () => 50_000 });

  function open(bootId = "boot-1", at = path) {
    const state = openState(at, { log, bootClock: bootClock(bootId) });
    return { ...ownershipRecordIn(state), ...holderRecordIn(state) };
  }

  async function keep(
    owned: readonly ServerKey[],
    others: readonly ServerKey[] = [],
  ): Promise<void> {
    const file = open();
    file.keep({ owned: new Set(owned), foreign: new Set(others) });
    await file.idle();
  }

  function write(content: unknown): void {
    mkdirSync(join(folder, "run"), { recursive: true });
    writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  }

  it("stays within its limit regardless of the length of names", async () => {
    const holders = new Map(
      Array.from({ length: 20_000 }, (_, index) => [
        toServerKey(`TCP 203.0.113.1:${index}`),
        { service: toServiceName(`${"n".repeat(63)}/${"s".repeat(63)}`), createdAtSeconds: 1 },
      ]),
    );
    const owned = Array.from({ length: 20_000 }, (_, index) =>
      toServerKey(`TCP 192.168.10.11:${index}`),
    );
    const file = open();
    file.keepHolders(holders);
    file.keep({ owned: new Set(owned), foreign: new Set([foreign]) });
    await file.idle();
    const { recorded, held } = open();
    assert.deepEqual([recorded.owned.size, recorded.foreign.size], [20_000, 1]);
    assert.ok(held.size > 1_000);
    assert.deepEqual(log.lines, []);
  });

  it("stays readable regardless of the number of virtual servers", async () => {
    const many = Array.from({ length: 100_000 }, (_, index) =>
      toServerKey(`TCP [2001:db8:0:1:2:3:4:5]:${index}`),
    );
    await keep(many);
    assert.equal(open().recorded.owned.size, 20_000);
    assert.deepEqual(log.lines, []);
  });

  it("is passed on to the next program in the same boot", async () => {
    await keep([nodePort], [foreign]);
    const want = { owned: new Set([nodePort]), foreign: new Set([foreign]) };
    assert.deepEqual(open().recorded, want);
    assert.deepEqual(log.lines, []);
  });

  it("contains only the newest state", async () => {
    const file = open();
    for (let port = 0; port < 20; port += 1) {
      file.keep({
        owned: new Set([toServerKey(`TCP 192.168.10.11:${port}`)]),
        foreign: new Set(),
      });
    }
    await file.idle();
    assert.deepEqual([...open().recorded.owned], ["TCP 192.168.10.11:19"]);
    assert.deepEqual([...file.recorded.owned], [], "the state found at startup is unchanged");
  });

  it("does not change when the sets passed to it change", async () => {
    const owned = new Set([nodePort]);
    const file = open();
    file.keep({ owned, foreign: new Set() });
    owned.clear();
    await file.idle();
    assert.deepEqual([...open().recorded.owned], [nodePort]);
  });

  it("has no file while it is empty", async () => {
    await keep([]);
    assert.equal(existsSync(path), false);
    await keep([nodePort]);
    await keep([]);
    assert.equal(existsSync(path), false);
    assert.deepEqual(open().recorded, nothingRecorded);
  });

  it("is ignored after a boot", async () => {
    await keep([nodePort], [foreign]);
    assert.deepEqual(open("boot-2").recorded, nothingRecorded);
    assert.deepEqual(open("").recorded, nothingRecorded);
  });

  const broken: readonly [name: string, content: unknown][] = [
    ["no JSON", "{"],
    ["empty", ""],
    ["of a different version", { version: 2, bootId: "boot-1", owned: [nodePort] }],
    ["without lists", { version: 1, bootId: "boot-1", owned: { [nodePort]: 1 }, foreign: 7 }],
  ];
  for (const [name, content] of broken) {
    it(`is empty if the file is ${name}`, () => {
      write(content);
      assert.deepEqual(open().recorded, nothingRecorded);
      const isUnreadable = typeof content === "string";
      assert.deepEqual(
        log.lines.map(({ event }) => event),
        isUnreadable ? ["Cannot read the record of an earlier run"] : [],
      );
      if (isUnreadable) assert.match(String(log.lines[0]?.keys["err"]), /state\.json: /);
    });
  }

  it("omits values that are not texts", () => {
    write({ version: 1, bootId: "boot-1", owned: [nodePort, 7, null, {}], foreign: [[foreign]] });
    assert.deepEqual(open().recorded, { owned: new Set([nodePort]), foreign: new Set() });
  });

  it("has a size limit for writing and reading", async () => {
    const many = Array.from({ length: 20_001 }, (_, index) =>
      toServerKey(`TCP 192.168.10.11:${index}`),
    );
    await keep(many);
    assert.equal(open().recorded.owned.size, 20_000);
    assert.ok(readFileSync(path).length < 2 ** 21);
  });

  describe("the record of contested addresses' owners", () => {
    const young = { service: toServiceName("default/young"), createdAtSeconds: 1_770_000_000 };
    const held = new Map([[toServerKey("TCP 203.0.113.1:80"), young]]);

    it("is separate from the ownership of virtual servers, and neither replaces the other", async () => {
      await keep([nodePort], [foreign]);
      const file = open();
      file.keepHolders(held);
      await file.idle();
      assert.deepEqual(open().held, held);
      assert.deepEqual([...open().recorded.owned], [nodePort]);
      await keep([]);
      assert.deepEqual([open().held, open().recorded], [held, nothingRecorded]);
      const last = open();
      last.keepHolders(new Map());
      await last.idle();
      assert.equal(existsSync(path), false);
    });

    it("is written when it changes, and not with every sync", async () => {
      const file = open();
      file.keepHolders(held);
      await file.idle();
      rmSync(path);
      file.keepHolders(new Map(held));
      await file.idle();
      assert.equal(existsSync(path), false);
      file.keepHolders(held, new Map([[foreign, young]]));
      await file.idle();
      assert.equal(open().held.size, 2);
    });

    it("is ignored after a boot", async () => {
      const file = open();
      file.keepHolders(held);
      await file.idle();
      assert.equal(open("boot-2").held.size, 0);
    });

    it("omits invalid owners", () => {
      const holders = { a: [7, 7], b: ["default/b"], c: "default/c", d: ["default/d", 1], e: null };
      write({ version: 1, bootId: "boot-1", owned: [], foreign: [], holders });
      assert.deepEqual(
        open().held,
        new Map([["d", { service: "default/d", createdAtSeconds: 1 }]]),
      );
      for (const broken of [7, null, [["d", 1]]]) {
        write({ version: 1, bootId: "boot-1", owned: [], foreign: [], holders: broken });
        assert.equal(open().held.size, 0);
      }
    });
  });

  it("is neither read nor written without a path", async () => {
    const file = open("boot-1", "");
    file.keep({ owned: new Set([nodePort]), foreign: new Set() });
    await file.idle();
    assert.deepEqual([file.recorded, log.lines], [nothingRecorded, []]);
  });

  it("reports once that it cannot be written, with path and reason, while the program continues", async () => {
    writeFileSync(join(folder, "run"), "");
    const file = open();
    for (let time = 0; time < 2; time += 1) {
      file.keep({
        owned: new Set([nodePort, toServerKey(`TCP 10.0.0.1:${time}`)]),
        foreign: new Set(),
      });
      await file.idle();
    }
    assert.equal(log.lines.length, 1);
    const [line] = log.lines;
    assert.match(line?.event ?? "", /state file/);
    assert.equal(line?.keys["path"], path);
    assert.match(String(line?.keys["err"]), /EEXIST|ENOTDIR/);
  });
});
