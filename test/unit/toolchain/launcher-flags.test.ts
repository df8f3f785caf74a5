import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";

const launcher = readFileSync(new URL("../../../toolchain/launcher.sh", import.meta.url), "utf8");

/** A node's files by path, such as `/proc/self/cgroup`. */
type NodeFiles = Readonly<Record<string, string>>;

/** The flags with which the launcher starts Node.js on a node with these files. */
function flagsOn(files: NodeFiles, environment: NodeJS.ProcessEnv = {}): readonly string[] {
  const folder = mkdtempSync(join(tmpdir(), "launcher-"));
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text, { mode: 0o755 });
  };
  try {
    for (const [path, text] of Object.entries(files)) write(path, text);
    // The paths are replaced, because the files cannot be created at their real paths without root.
    write("kube-ipvs", launcher.replaceAll(/\/(?:proc|sys)\/(?=self|fs)/g, `${folder}$&`));
    write("lib/node", '#!/bin/sh\nfor argument; do echo "$argument"; done\n');
    const env = { PATH: process.env["PATH"], ...environment };
    const script = join(folder, "kube-ipvs");
    const given = execFileSync("sh", [script, "last"], { encoding: "utf8", env }).split("\n");
    assert.deepEqual(given.slice(-3), [join(folder, "lib/kube-ipvs.cjs"), "last", ""]);
    return given.slice(0, -3);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const flags = flagsOn({});
/** The launcher's settings for the C library's allocator, if the environment contains none. */
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
  /**
   * If flags change the compiled code, Node.js rejects its stored compiled code, which costs 30 ms at each start.
   */
  it("allow the engine to use the compiled code of Node.js", () => {
    const tagWith = (...argv: string[]): string => evaluate("v8.cachedDataVersionTag()", argv);
    assert.ok(flags.length > 0);
    assert.equal(tagWith(...flags), tagWith());
    assert.notEqual(tagWith("--no-maglev"), tagWith());
  });

  /**
   * With a limit of 2 GB or more, the heap grows to four times the used size before the next collection. With a lower
   * limit, it grows to less than twice the used size.
   */
  it("limit the heap to less than 2 GB, with room for 100,000 Services", () => {
    const limitMb = Number(evaluate("v8.getHeapStatistics().heap_size_limit", flags)) / 2 ** 20;
    assert.ok(limitMb < 2_048, `${limitMb} MB`);
    assert.ok(limitMb >= 1_024, `${limitMb} MB`);
  });
});

describe("the maximum heap size", () => {
  const heapOn = (files: NodeFiles, environment: NodeJS.ProcessEnv = {}): string | undefined =>
    flagsOn(files, environment).find((flag) => flag.startsWith("--max-old-space-size="));
  const mb = (count: number): string => `${count * 2 ** 20}\n`;
  /** The files in a container with a cgroup namespace. */
  const limited = (limit: string): NodeFiles => ({
    "/proc/self/cgroup": "0::/\n",
    "/sys/fs/cgroup/memory.max": limit,
  });
  const onVersion1 = "9:name=systemd:/pod/one\n4:cpu,cpuacct:/pod/one\n3:memory:/pod/one\n0::/\n";

  it("is 1 GB without a memory limit", () => {
    assert.equal(heapOn({}), "--max-old-space-size=1024");
    assert.equal(heapOn(limited("max\n")), "--max-old-space-size=1024");
    const files = {
      "/proc/self/cgroup": onVersion1,
      "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    };
    assert.equal(heapOn(files), "--max-old-space-size=1024");
  });

  it("is three quarters of the cgroup's limit, minus 32 MB, from 64 to 1920 MB", () => {
    const cases = [
      [64, 64],
      [128, 64],
      [256, 160],
      [1_024, 736],
      [2_048, 1_504],
      [8_192, 1_920],
    ] as const;
    for (const [limit, heap] of cases) {
      assert.equal(heapOn(limited(mb(limit))), `--max-old-space-size=${heap}`, `${limit} MB`);
    }
  });

  it("follows the smallest limit of the parent cgroups", () => {
    const files = {
      "/proc/self/cgroup": "0::/system.slice/kube-ipvs.service/\n",
      "/sys/fs/cgroup/system.slice/memory.max": mb(512),
      "/sys/fs/cgroup/system.slice/kube-ipvs.service/memory.max": mb(2_048),
    };
    assert.equal(heapOn(files), "--max-old-space-size=352");
  });

  it("follows the memory controller of cgroup version 1, at the path or at the container's root", () => {
    for (const path of ["/pod/one", "/pod", ""]) {
      const files = {
        "/proc/self/cgroup": onVersion1,
        [`/sys/fs/cgroup/memory${path}/memory.limit_in_bytes`]: mb(256),
      };
      assert.equal(heapOn(files), "--max-old-space-size=160", path);
    }
  });

  it("is KUBE_IPVS_MAX_HEAP_MB if that is set", () => {
    const environment = {
      KUBE_IPVS_MAX_HEAP_MB: "4000",
      NODE_OPTIONS: "--max-old-space-size=300",
    };
    assert.equal(heapOn(limited(mb(256)), environment), "--max-old-space-size=4000");
  });

  it("is left to NODE_OPTIONS, like its other flags", () => {
    for (const flag of ["--max-old-space-size=300", "--max_old_space_size=300"]) {
      assert.equal(heapOn(limited(mb(256)), { NODE_OPTIONS: flag }), undefined, flag);
    }
    const NODE_OPTIONS = "--trace-warnings --max-semi-space-size=16 --v8-pool-size=4";
    assert.deepEqual(flagsOn({}, { NODE_OPTIONS }), [
      "--max-old-space-size=1024",
      "--disable-sigusr1",
    ]);
  });
});

describe("the launcher's allocator settings", () => {
  /** Allocates blocks like the engine's compilers. Each is followed by a small block that is kept. */
  const freedMb = `(() => {
    const anonymousMb = () =>
      Number(/RssAnon:\\s+(\\d+)/.exec(fs.readFileSync("/proc/self/status", "utf8"))[1]) / 1024;
    const blocks = Array.from({ length: 2_000 }, () => [
      Buffer.allocUnsafeSlow(32_768).fill(1),
      Buffer.allocUnsafeSlow(512).fill(1),
    ]);
    const before = anonymousMb();
    for (const pair of blocks) pair[0] = undefined;
    // The second call waits until a background thread of the first one has freed the memory.
    gc();
    gc();
    const freed = before - anonymousMb();
    return blocks.length > 0 ? freed : 0;
  })()`;

  /** Only mapped blocks are released: a third to a half of them, depending on the free space elsewhere. */
  it("release blocks of 32 KB that are freed while small blocks between them stay", () => {
    const argv = [...flags, "--expose-gc"];
    const totalMb = (2_000 * 32_768) / 2 ** 20;
    const withSettings = Number(evaluate(freedMb, argv, allocator));
    assert.ok(withSettings > totalMb / 8, `${withSettings} of ${totalMb} MB`);
    const larger = { ...allocator, MALLOC_MMAP_THRESHOLD_: "131072" };
    const withLarger = Number(evaluate(freedMb, argv, larger));
    assert.ok(withLarger < totalMb / 16, `${withLarger} of ${totalMb} MB`);
  });
});
