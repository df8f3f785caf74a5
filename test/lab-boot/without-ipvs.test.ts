/** Tests what a user reads if the kernel lacks IPVS. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { it } from "node:test";
import { failuresIn } from "../support/failure-lines.ts";

const project = join(import.meta.dirname, "../..");

interface Ending {
  readonly status: number;
  readonly failure: string;
  readonly output: string;
}

function runWithoutIpvs(...argv: readonly string[]): Promise<Ending> {
  const boot = ["test/lab/boot.ts", "--cpu", "1", "--timeout", "60", "--without-ipvs", "--"];
  return new Promise((resolve) => {
    execFile(process.execPath, [...boot, ...argv], { cwd: project }, (error, output, stderr) => {
      const failure = failuresIn(stderr).join();
      resolve({ status: error === null ? 0 : Number(error.code), failure, output });
    });
  });
}

/** Prints the state that a start may change, starts the program, and prints the state again if it differs. */
const compare = `
state() { sysctl -a -r 'conntrack|vs/|ip_forward|route_localnet|arp_' 2> /dev/null; iptables-save | grep -v '^#'; lsmod | cut -d ' ' -f 1; ls /run/kube-ipvs 2> /dev/null; ip link; }
sysctl -qw net.netfilter.nf_conntrack_max=1000
before=$(state 2>&1)
status=0
dist/kube-ipvs "$@" || status=$?
[ "$(state 2>&1)" = "$before" ] || { echo "$before"; echo; state; }
exit $status
`;

const skip = process.env["LAB"] === "host" && "it needs the lab kernel, not LAB=host";

it("without IPVS, the program exits with advice on what to do and leaves the node unchanged", {
  skip,
}, async () => {
  const start = ["sh", "-c", compare, "sh", "--manifests=/tmp"];
  assert.deepEqual(await runWithoutIpvs(...start), {
    status: 1,
    output: "",
    failure:
      "Cannot find generic netlink family IPVS: ENOENT (IPVS is not loaded or not supported: run modprobe ip_vs, or use a kernel built with CONFIG_IP_VS)",
  });
});
