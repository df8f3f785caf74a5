import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";

const launcher = readFileSync(new URL("../../../toolchain/launcher.sh", import.meta.url), "utf8");
const command = /^exec .*$/m.exec(launcher)?.[0] ?? "";
const flags = command.match(/ --[a-z0-9=-]+/g)?.map((flag) => flag.trim()) ?? [];
/** Its settings of the C library's allocator, as they are where the environment has none. */
const allocator: Readonly<Record<string, string>> = Object.fromEntries(
  [...launcher.matchAll(/(MALLOC_[A-Z_]+)="\$\{\1-(\d+)\}"/g)].map(([, name, value]) => [
    name,
    value,
  ]),
);

function evaluate(source: string, argv: readonly string[], environment = {}): string {
  const env = { PATH: process.env["PATH"], ...environment };
  const script = `process.stdout.write(String(${source}))`;
  return execFileSync(process.execPath, [...argv, "--eval", script], { encoding: "utf8", env });
}

describe("the launcher's flags", () => {
  /** Flags that change what the engine compiles make it refuse what was compiled with others: 30 ms at each start. */
  it("let the engine take the compiled code that Node.js brings", () => {
    const tagWith = (...argv: string[]): string => evaluate("v8.cachedDataVersionTag()", argv);
    assert.ok(flags.length > 0);
    assert.equal(tagWith(...flags), tagWith());
    assert.notEqual(tagWith("--no-maglev"), tagWith());
  });

  /** From 2 GB on the heap grows to four times what is in use before the next collection; below, to less than twice. */
  it("fix the maximum of the heap, below 2 GB and with room for 100,000 Services", () => {
    const limitMb = Number(evaluate("v8.getHeapStatistics().heap_size_limit", flags)) / 2 ** 20;
    assert.ok(limitMb < 2_048, `${limitMb} MB`);
    assert.ok(limitMb >= 1_024, `${limitMb} MB`);
  });
});

describe("the launcher's allocator settings", () => {
  /** Blocks as the engine's compilers take them, each followed by a small one that stays. */
  const freedMb = `(() => {
    const anonymousMb = () =>
      Number(/RssAnon:\\s+(\\d+)/.exec(fs.readFileSync("/proc/self/status", "utf8"))[1]) / 1024;
    const blocks = Array.from({ length: 2_000 }, () => [
      Buffer.allocUnsafeSlow(32_768).fill(1),
      Buffer.allocUnsafeSlow(512).fill(1),
    ]);
    const before = anonymousMb();
    for (const pair of blocks) pair[0] = undefined;
    // The second one waits for what the first one frees beside the program.
    gc();
    gc();
    const freed = before - anonymousMb();
    return blocks.length > 0 ? freed : 0;
  })()`;

  /** Those that were mapped: a third to a half of them, as there happened to be room elsewhere. */
  it("give blocks of 32 KB back that are freed while small ones between them stay", () => {
    const argv = [...flags, "--expose-gc"];
    const totalMb = (2_000 * 32_768) / 2 ** 20;
    const withSettings = Number(evaluate(freedMb, argv, allocator));
    assert.ok(withSettings > totalMb / 8, `${withSettings} of ${totalMb} MB`);
    const larger = { ...allocator, MALLOC_MMAP_THRESHOLD_: "131072" };
    const withLarger = Number(evaluate(freedMb, argv, larger));
    assert.ok(withLarger < totalMb / 16, `${withLarger} of ${totalMb} MB`);
  });
});
