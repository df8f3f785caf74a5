/** What a user reads where the kernel has no IPVS. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { it } from "node:test";
import { failuresIn } from "../support/failure-lines.ts";

const project = join(import.meta.dirname, "../..");

interface Ending {
  readonly status: number;
  readonly failure: string;
}

function runWithoutIpvs(...argv: readonly string[]): Promise<Ending> {
  const boot = ["test/lab/boot.ts", "--cpu", "1", "--timeout", "60", "--without-ipvs", "--"];
  return new Promise((resolve) => {
    execFile(process.execPath, [...boot, ...argv], { cwd: project }, (error, _stdout, stderr) => {
      const failure = failuresIn(stderr).join();
      resolve({ status: error === null ? 0 : Number(error.code), failure });
    });
  });
}

const skip = process.env["LAB"] === "host" && "it needs the lab kernel, not LAB=host";

it("without IPVS the program does not start, and says what to do", { skip }, async () => {
  assert.deepEqual(await runWithoutIpvs("dist/kube-ipvs", "--manifests=/tmp"), {
    status: 1,
    failure:
      "Cannot find generic netlink family IPVS: ENOENT (the kernel has no IPVS: modprobe ip_vs, or use a kernel that is built with CONFIG_IP_VS)",
  });
});
