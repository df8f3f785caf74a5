import assert from "node:assert/strict";
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { systemClock } from "../../../../src/base/clock.ts";
import { silentLogger } from "../../../../src/base/log.ts";
import { watchText } from "../../../../src/daemon/process/config-watch.ts";
import { FakeClock } from "../../../support/fake-clock.ts";

/** Simulates a ConfigMap volume and how kubelet replaces its contents. */
class Volume {
  readonly folder: string = mkdtempSync(join(tmpdir(), "config-watch-"));
  readonly path: string = join(this.folder, "config.conf");

  constructor(text: string) {
    this.#write("..v1", text);
    symlinkSync("..v1", join(this.folder, "..data"));
    symlinkSync("..data/config.conf", this.path);
  }

  swap(text: string): void {
    this.#write("..v2", text);
    symlinkSync("..v2", join(this.folder, "..data_tmp"));
    renameSync(join(this.folder, "..data_tmp"), join(this.folder, "..data"));
    rmSync(join(this.folder, "..v1"), { recursive: true });
  }

  #write(name: string, text: string): void {
    mkdirSync(join(this.folder, name));
    writeFileSync(join(this.folder, name, "config.conf"), text);
  }
}

let folder: string;
let path: string;
let stop: () => void = () => {};

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "config-watch-"));
  path = join(folder, "config.conf");
  writeFileSync(path, "one");
});
afterEach(() => {
  stop();
  rmSync(folder, { recursive: true });
});

describe("the watch of the configuration file", () => {
  it("fails without a file", () => {
    const options = { clock: systemClock, log: silentLogger, onText: () => {} };
    assert.throws(
      () => watchText(join(folder, "missing", "file"), "", options),
      /Cannot watch .*missing.*: ENOENT/,
    );
  });

  for (const { name, make } of [
    { name: "a write", make: (): [string, () => void] => [path, () => appendFileSync(path, "!")] },
    {
      name: "a new file in its place",
      make: (): [string, () => void] => [
        path,
        () => {
          writeFileSync(`${path}.new`, "two");
          renameSync(`${path}.new`, path);
        },
      ],
    },
    {
      name: "a ConfigMap volume update",
      make: (): [string, () => void] => {
        const volume = new Volume("one");
        return [volume.path, () => volume.swap("two")];
      },
    },
  ]) {
    it(`detects ${name}`, async () => {
      const [watched, change] = make();
      const { promise, resolve } = Promise.withResolvers<void>();
      stop = watchText(watched, "one", { clock: systemClock, log: silentLogger, onText: resolve });
      change();
      await promise;
    });
  }

  it("detects a change that was made before the watch began", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    stop = watchText(path, "zero", { clock: systemClock, log: silentLogger, onText: resolve });
    await promise;
  });

  it("detects a change within a minute even if other files in the directory change all the time", async () => {
    const clock = new FakeClock();
    let count = 0;
    stop = watchText(path, "one", { clock, log: silentLogger, onText: () => (count += 1) });
    writeFileSync(path, "two");
    for (let round = 0; round < 320 && count === 0; round += 1) {
      writeFileSync(join(folder, "other"), String(round));
      // The kernel's notification needs real time.
      await pause(5);
      await clock.advance(190);
    }
    assert.equal(count, 1);
  });

  it("reports nothing while the text is the same", async () => {
    let count = 0;
    const { promise, resolve } = Promise.withResolvers<void>();
    stop = watchText(path, "one", {
      clock: systemClock,
      log: silentLogger,
      onText: () => {
        count += 1;
        resolve();
      },
    });
    writeFileSync(path, "one");
    await pause(400);
    assert.equal(count, 0);
    writeFileSync(path, "two");
    await promise;
    assert.equal(count, 1);
  });
});
