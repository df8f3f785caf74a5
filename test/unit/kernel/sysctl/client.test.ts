import assert from "node:assert/strict";
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { KernelFileError } from "../../../../src/kernel/kernel-file.ts";
import { SysctlClient } from "../../../../src/kernel/sysctl/client.ts";

const folder = mkdtempSync(join(tmpdir(), "sysctl-"));
after(() => rmSync(folder, { recursive: true }));

mkdirSync(join(folder, "net/ipv4"), { recursive: true });
const file = join(folder, "net/ipv4/ip_forward");
const sysctl = new SysctlClient(folder);

describe("sysctls", () => {
  it("are read without the line end", () => {
    writeFileSync(file, "1\n");
    assert.equal(sysctl.read("net/ipv4/ip_forward"), "1");
    assert.equal(sysctl.read("net/ipv4/absent"), undefined);
  });

  it("are written if they differ, which the result shows", () => {
    writeFileSync(file, "0\n");
    assert.equal(sysctl.ensure("net/ipv4/ip_forward", "1"), true);
    assert.equal(readFileSync(file, "utf8").trimEnd(), "1");
  });

  it("are not written if they differ only in whitespace", () => {
    for (const [text, value] of [
      ["1\n", "1"],
      ["32768\t60999\n", "32768 60999"],
    ] as const) {
      writeFileSync(file, text);
      utimesSync(file, 1, 1);
      assert.equal(sysctl.ensure("net/ipv4/ip_forward", value), false);
      assert.equal(statSync(file).mtimeMs, 1_000);
    }
  });

  it("are named in the error with the needed value if the kernel lacks them", () => {
    assert.throws(
      () => sysctl.ensure("net/ipv4/vs/conntrack", "1"),
      (error: unknown) =>
        error instanceof KernelFileError &&
        error.code === "ENOENT" &&
        error.message ===
          "Cannot set sysctl net.ipv4.vs.conntrack to 1: ENOENT (the kernel has no such sysctl; its module may not be loaded)",
    );
  });

  it("cause an error with a remedy if /proc/sys is read-only", () => {
    // This sysctl is read-only in the kernel, so even root gets EACCES.
    assert.throws(
      () => new SysctlClient().ensure("kernel/ostype", "Minix"),
      (error: unknown) =>
        error instanceof KernelFileError &&
        /^Cannot set sysctl kernel\.ostype to Minix \(currently Linux\): EACCES \(.*"sysctl -w kernel\.ostype=Minix" on the node, .*--init-only/.test(
          error.message,
        ),
    );
  });

  it("reject paths outside the folder", () => {
    for (const path of ["../etc/passwd", "/etc/passwd", "net/../../x", "", "net//x", "a b"]) {
      assert.throws(() => sysctl.read(path), /Not a sysctl path/);
    }
  });
});
