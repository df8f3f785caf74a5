/** Uses a network namespace of this machine to show why both iptables backends need NET_RAW. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "node:test";

interface Answer {
  readonly status: number | null;
  readonly output: string;
}

/** Restores a rule that refers to a set, in a new network namespace with only these capabilities. */
function restoreRule(program: string, capabilities: readonly string[]): Answer {
  const bounding = ["-all", ...capabilities.map((name) => `+${name}`)].join(",");
  const rules = "*nat\n:TRY - [0:0]\n-A TRY -m set --match-set TRY dst,dst -j RETURN\nCOMMIT\n";
  const script = `ipset create TRY hash:ip,port && printf '%s' "$1" | ${program}-restore --noflush`;
  const command = ["--net", "setpriv", `--bounding-set=${bounding}`, "--inh-caps=-all"];
  const { status, stdout, stderr } = spawnSync(
    "unshare",
    [...command, "sh", "-c", script, "sh", rules],
    { encoding: "utf8" },
  );
  return { status, output: stdout + stderr };
}

describe("rules that name a set", () => {
  for (const program of ["iptables-nft", "iptables-legacy"]) {
    it(`need NET_ADMIN and NET_RAW: ${program}`, (test) => {
      const both = restoreRule(program, ["net_admin", "net_raw"]);
      if (both.status !== 0) {
        test.skip(
          `${program} cannot name sets on this machine (the lab tries iptables-legacy): ${both.output.trim()}`,
        );
        return;
      }
      const admin = restoreRule(program, ["net_admin"]);
      assert.notEqual(admin.status, 0);
      assert.match(admin.output, /Can't open socket to ipset|unable to initialize table/);
    });
  }
});
