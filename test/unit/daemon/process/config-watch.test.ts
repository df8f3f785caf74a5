import assert from "node:assert/strict";
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { systemClock } from "../../../../src/base/clock.ts";
import { silentLogger } from "../../../../src/base/log.ts";
import { watchForWrites, watchText } from "../../../../src/daemon/process/config-watch.ts";

/** What a ConfigMap volume looks like, and how kubelet puts another content in place. */
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

/** What the watch reported, once a last write to another file shows that all before it was seen. */
function firstChange(watched: string): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  stop = watchForWrites(watched, resolve);
  return promise;
}

describe("the watch that ends the program", () => {
  it("sees each write", async () => {
    const seen: string[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    stop = watchForWrites(path, (what) => {
      seen.push(what);
      if (seen.length === 1) appendFileSync(path, " second");
      else resolve();
    });
    appendFileSync(path, " first");
    await promise;
    assert.deepEqual(seen, ["written", "written"]);
  });

  it("sees the file renamed", async () => {
    const changed = firstChange(path);
    renameSync(path, `${path}.old`);
    assert.equal(await changed, "renamed");
  });

  for (const { name, change } of [
    { name: "a change of mode", change: () => chmodSync(path, 0o600) },
    { name: "a removal", change: () => unlinkSync(path) },
    {
      name: "another file in its place",
      change: () => {
        writeFileSync(`${path}.new`, "two");
        renameSync(`${path}.new`, path);
      },
    },
  ]) {
    it(`does not see ${name}, as upstream`, async () => {
      const seen: string[] = [];
      stop = watchForWrites(path, (what) => seen.push(what));
      change();
      await afterEvents();
      assert.deepEqual(seen, []);
    });
  }

  it("does not see a ConfigMap volume change, as upstream", async () => {
    const volume = new Volume("one");
    const seen: string[] = [];
    stop = watchForWrites(volume.path, (what) => seen.push(what));
    volume.swap("two");
    await afterEvents();
    assert.deepEqual(seen, []);
    rmSync(volume.folder, { recursive: true });
  });

  it("is refused where there is no file", () => {
    assert.throws(
      () => watchForWrites(join(folder, "missing"), () => {}),
      /Cannot watch .*missing: ENOENT/,
    );
  });

  /** Events arrive in order: those of a second watch, begun later, come after those of the first. */
  async function afterEvents(): Promise<void> {
    const other = join(folder, "other");
    writeFileSync(other, "");
    const { promise, resolve } = Promise.withResolvers<string>();
    const stopOther = watchForWrites(other, resolve);
    appendFileSync(other, "x");
    await promise;
    stopOther();
    await pause(0);
  }
});

describe("the watch that reads the file again", () => {
  for (const { name, make } of [
    { name: "a write", make: (): [string, () => void] => [path, () => appendFileSync(path, "!")] },
    {
      name: "another file in its place",
      make: (): [string, () => void] => [
        path,
        () => {
          writeFileSync(`${path}.new`, "two");
          renameSync(`${path}.new`, path);
        },
      ],
    },
    {
      name: "a ConfigMap volume's change",
      make: (): [string, () => void] => {
        const volume = new Volume("one");
        return [volume.path, () => volume.swap("two")];
      },
    },
  ]) {
    it(`sees ${name}`, async () => {
      const [watched, change] = make();
      const { promise, resolve } = Promise.withResolvers<void>();
      stop = watchText(watched, { clock: systemClock, log: silentLogger, onText: resolve });
      change();
      await promise;
    });
  }

  it("says nothing while the text is the same", async () => {
    let count = 0;
    const { promise, resolve } = Promise.withResolvers<void>();
    stop = watchText(path, {
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
