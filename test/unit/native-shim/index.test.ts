import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const sources = fileURLToPath(new URL("../../../native-shim", import.meta.url));

describe("loading the addon", () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "native-shim-"));
    await mkdir(join(folder, "native-shim"));
    for (const name of ["index.ts", "load-addon.ts"]) {
      await cp(join(sources, name), join(folder, "native-shim", name));
    }
    await writeFile(join(folder, "package.json"), '{ "type": "module" }');
  });
  after(() => rm(folder, { recursive: true }));

  /** Runs a program that imports the copy, and returns its output. */
  async function outputOf(lines: string): Promise<string> {
    const index = JSON.stringify(join(folder, "native-shim", "index.ts"));
    const program = `import { open } from ${index}; ${lines}`;
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", program]);
    return stdout.trim();
  }

  it("happens at the first use, not at import", async () => {
    assert.equal(await outputOf(`console.log(typeof open);`), "function");
  });

  it("fails with one line that names the files and how to build them", async () => {
    const text = await outputOf(`
      try { open(0, {}); } catch (error) { console.log(error.message); }`);
    const beside = join(folder, "native-shim", "netlink_socket.node");
    const built = join(folder, "build", "native-shim", process.arch, "netlink_socket.node");
    assert.equal(
      text,
      `Cannot load the native addon: neither ${beside} nor ${built} exists; run \`make build\``,
    );
  });

  it("prefers the file next to it", async () => {
    await writeFile(join(folder, "native-shim", "netlink_socket.node"), "not an addon");
    const text = await outputOf(`
      try { open(0, {}); } catch (error) { console.log(error.code, error.message); }`);
    assert.match(text, /^ERR_DLOPEN_FAILED .*native-shim\/netlink_socket\.node/);
  });
});
