/** Tests that ipset(8), ip(8) and iptables(8) can read the objects that kube-ipvs creates, and vice versa. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { ipFamilies } from "../../src/base/ip.ts";
import { silentLogger } from "../../src/base/log.ts";
import { chooseBackend } from "../../src/kernel/iptables/backend.ts";
import { isIptablesBusy } from "../../src/kernel/iptables/errors.ts";
import type { RuleChange } from "../../src/kernel/kernel.ts";
import { type OpenKernel, openKernel } from "../../src/kernel/open-kernel.ts";
import { runProgram } from "../../src/kernel/run-program.ts";
import { setsFor } from "../../src/plan/sets.ts";
import type { IpSet } from "../../src/state/ip-set.ts";
import { shell, withNetworkNamespace } from "../support/netns/network-namespace.ts";

const iptablesBackend = await chooseBackend(runProgram);

async function withKernel(body: (kernel: OpenKernel) => Promise<void>): Promise<void> {
  await withNetworkNamespace("tools", [], async () => {
    const kernel = await openKernel({ log: silentLogger, iptablesBackend });
    try {
      await body(kernel);
    } finally {
      kernel.close();
    }
  });
}

/** The command with which kube-proxy creates a set. */
function createCommand({ name, type, family }: IpSet): string {
  const options =
    type === "bitmap:port"
      ? "range 0-65535"
      : `family ${family === "IPv4" ? "inet" : "inet6"} hashsize 1024 maxelem 65536`;
  return `ipset create ${name} ${type} ${options} -exist`;
}

const chain: RuleChange = {
  kind: "chain-write",
  chain: { table: "nat", name: "KUBE-A", rules: [{ matches: [], target: { kind: "return" } }] },
};

describe("sets", () => {
  for (const family of ipFamilies) {
    it(`of kube-ipvs are accepted by 'ipset create … -exist', ${family}`, async () => {
      await withKernel(async ({ ipSets }) => {
        for (const set of setsFor(family)) await ipSets.create(set);
        shell(setsFor(family).map(createCommand).join("\n"));
      });
    });

    it(`that ipset created are accepted, ${family}`, async () => {
      await withKernel(async ({ ipSets }) => {
        shell(setsFor(family).map(createCommand).join("\n"));
        for (const set of setsFor(family)) await ipSets.create(set);
      });
    });
  }

  it("with a timeout, which would remove entries, are rejected", async () => {
    await withKernel(async ({ ipSets }) => {
      const [set] = setsFor("IPv4");
      assert.ok(set);
      shell(`ipset create ${set.name} ${set.type} family inet maxelem 65536 timeout 60`);
      await assert.rejects(ipSets.create(set), /EEXIST/);
    });
  });
});

describe("the dummy link", () => {
  it("equals one created by 'ip link add kube-ipvs0 txqueuelen 0 type dummy'", async () => {
    await withKernel(async ({ link }) => {
      await link.ensure();
      shell("ip link add kube-ipvs1 txqueuelen 0 type dummy");
      const [ours, theirs] = ["kube-ipvs0", "kube-ipvs1"].map((name) =>
        shell(`ip -d link show ${name}`)
          .replaceAll(/^\d+: kube-ipvs\d/g, "")
          .replace(/link\/ether [0-9a-f:]+/, "link/ether"),
      );
      assert.equal(ours, theirs);
      assert.match(ours ?? "", /state DOWN/);
      assert.doesNotMatch(ours ?? "", /qlen/);
    });
  });
});

describe("iptables", () => {
  it("keeps thousands of third-party rules and stays fast", async () => {
    await withKernel(async ({ iptables }) => {
      const foreign = Array.from(
        { length: 5_000 },
        (_, index) => `-A FOREIGN -s 10.0.${index >> 8}.${index & 255}/32 -j ACCEPT`,
      );
      const input = `*nat\n:FOREIGN - [0:0]\n${foreign.join("\n")}\nCOMMIT\n`;
      const others = { program: "iptables-restore", arguments: [], timeoutMs: 60_000 };
      assert.equal((await runProgram({ ...others, input })).exitCode, 0);
      await iptables.apply("IPv4", [chain]);
      const chains = await iptables.observe("IPv4");
      const observed = chains.find(({ name }) => name === "FOREIGN");
      assert.equal(observed?.rules.length, 5_000);
    });
  });

  it("waits for another program that holds the lock", async () => {
    await withKernel(async ({ iptables }) => {
      const holder = await holdLock(2);
      await iptables.apply("IPv4", [chain]);
      await holder.released;
      assert.ok((await iptables.observe("IPv4")).some(({ name }) => name === "KUBE-A"));
    });
  });

  if (iptablesBackend.backend === "legacy") {
    it("gives up after five seconds, and names the program that holds the lock", async () => {
      await withKernel(async ({ iptables }) => {
        const holder = await holdLock(9);
        await assert.rejects(iptables.apply("IPv4", [chain]), (error: unknown) => {
          assert.ok(isIptablesBusy(error), String(error));
          assert.match(String(error), /exited with code 4: another program holds the xtables lock/);
          return true;
        });
        await holder.released;
      });
    });
  } else {
    it("with nft does not wait for the lock, because the kernel has transactions", async () => {
      await withKernel(async ({ iptables }) => {
        const holder = await holdLock(9);
        let isReleased = false;
        void holder.released.then(() => {
          isReleased = true;
        });
        await iptables.apply("IPv4", [chain]);
        assert.equal(isReleased, false);
        assert.ok((await iptables.observe("IPv4")).some(({ name }) => name === "KUBE-A"));
      });
    });
  }
});

/**
 * Holds the lock of legacy iptables for some seconds. Resolves when the lock is held, with a function that waits for
 * its release.
 */
async function holdLock(seconds: number): Promise<{ readonly released: Promise<unknown> }> {
  const script = `flock -x 9; echo held; sleep ${seconds}`;
  const holder = spawn("sh", ["-c", `exec 9>/run/xtables.lock; ${script}`], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const released = once(holder, "exit");
  await once(holder.stdout, "data");
  return { released };
}
