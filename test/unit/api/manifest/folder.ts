import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { ManifestSource } from "../../../../src/api/manifest/manifest-source.ts";
import { type Logger, silentLogger } from "../../../../src/base/log.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { RecordingListener } from "../../../support/recording-listener.ts";

/** A folder of manifests for one test, which is removed when the test ends. */
export class ManifestFolder {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  static async make(
    test: TestContext,
    files: Readonly<Record<string, string>> = {},
  ): Promise<ManifestFolder> {
    const folder = new ManifestFolder(await mkdtemp(join(tmpdir(), "manifests-")));
    test.after(() => rm(folder.path, { recursive: true, force: true }));
    for (const [name, text] of Object.entries(files)) await folder.write(name, text);
    return folder;
  }

  /** Replaces a file as careful editors do: writes a new file and renames it. */
  async write(name: string, text: string): Promise<void> {
    const temporary = join(this.path, `.${name}.new`);
    await writeFile(temporary, text);
    await rename(temporary, join(this.path, name));
  }

  async remove(name: string): Promise<void> {
    await rm(join(this.path, name));
  }
}

/** A running source for a folder. Its timers never fire, so tests call `refresh`. */
export async function startedSource(
  test: TestContext,
  folder: ManifestFolder,
  log: Logger = silentLogger,
): Promise<{ readonly source: ManifestSource; readonly told: RecordingListener }> {
  const dependencies = { clock: new FakeClock(), log };
  const source = new ManifestSource(dependencies, { folder: folder.path, nodeName: "node-1" });
  const told = new RecordingListener();
  test.after(() => source.stop());
  await source.start(told);
  return { source, told };
}
