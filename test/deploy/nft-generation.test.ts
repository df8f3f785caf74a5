/**
 * Tests the detection of nft rule changes in a network namespace of this machine, because the default lab kernel
 * supports only the legacy backend.
 */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import { openGenerations } from "../../src/kernel/iptables/generations.ts";
import { nativeSocket } from "../../src/netlink/native-socket.ts";

const isInside = process.argv[2] === "inside";
const addRule = ["-A", "INPUT", "-s", "192.0.2.1", "-j", "DROP"];

/** Prints the generation after each step in the namespace. */
async function printGenerations(): Promise<void> {
  const generations = openGenerations("nft", {
    shim: nativeSocket,
    clock: systemClock,
    log: silentLogger,
  });
  const steps: readonly (() => void)[] = [
    () => {},
    () => execFileSync("iptables-nft-save"),
    () => execFileSync("iptables-nft", addRule),
    () => execFileSync("ip6tables-nft", ["-A", "INPUT", "-j", "DROP"]),
    () => execFileSync("iptables-nft", ["-F", "INPUT"]),
  ];
  const found: (number | undefined)[] = [];
  for (const step of steps) {
    step();
    found.push(await generations.read("IPv4"));
  }
  generations.close();
  console.log(JSON.stringify(found));
}

if (isInside) await printGenerations();
else {
  describe("the generation of nft rules on this machine", () => {
    it("changes after each write, and stays the same after a read", (test) => {
      const probe = spawnSync("unshare", ["--net", "iptables-nft", ...addRule], {
        encoding: "utf8",
      });
      if (probe.status !== 0) {
        test.skip(`this machine's kernel has no nft tables: ${probe.stderr.trim()}`);
        return;
      }
      const inside = ["--net", process.execPath, fileURLToPath(import.meta.url), "inside"];
      const output = execFileSync("unshare", inside, { encoding: "utf8" });
      const [first, looked, ...changed] = JSON.parse(output) as readonly number[];
      assert.equal(looked, first);
      assert.equal(new Set([first, ...changed]).size, 1 + changed.length);
    });
  });
}
