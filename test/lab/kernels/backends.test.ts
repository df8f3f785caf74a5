/**
 * Both backends of iptables in one kernel: the backend that the node uses changes between two runs, and native
 * nftables rules stand in the tables of iptables-nft. Needs a kernel with both.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, it } from "node:test";
import { chooseBackend } from "../../../src/kernel/iptables/backend.ts";
import { runProgram } from "../../../src/kernel/run-program.ts";
import { nodeSetUp } from "../../golden/node-world.ts";
import { eventually, type LabDaemon, startLabDaemon } from "../../support/lab-daemon.ts";
import { shell, withNetworkNamespace } from "../../support/netns/network-namespace.ts";
import { endpointSlice, service, servicePort } from "../../support/objects.ts";

type Backend = "legacy" | "nft";

const program = join(import.meta.dirname, "../../../dist/kube-ipvs");
const web = service({ type: "NodePort", ports: [servicePort({ nodePort: 30_080 })] });
const slice = endpointSlice({ endpoints: ["10.244.2.11"] });
const noticedMs = 60_000;

function inNamespace(body: () => Promise<void>): Promise<void> {
  return withNetworkNamespace("backends", nodeSetUp, body);
}

/** The chain by which kubelet shows its backend. */
function hint(backend: Backend, command: "-N" | "-X"): void {
  shell(`iptables-${backend} -t mangle ${command} KUBE-IPTABLES-HINT`);
}

function savedRules(backend: Backend): readonly string[] {
  return shell(`iptables-${backend}-save; ip6tables-${backend}-save`).split("\n");
}

/** Lines about our chains: declarations, rules, jumps. */
function ours(backend: Backend): readonly string[] {
  return savedRules(backend).filter((line) => /KUBE-/.test(line) && !/IPTABLES-HINT/.test(line));
}

function ourSets(): readonly string[] {
  return shell("ipset list -n")
    .split("\n")
    .filter((name) => name.startsWith("KUBE-"));
}

/** The daemon, with the backend that it finds now. */
async function start(): Promise<LabDaemon> {
  return startLabDaemon([web, slice], {}, await chooseBackend(runProgram));
}

async function runOnce(): Promise<void> {
  const daemon = await start();
  assert.deepEqual(daemon.errors, []);
  await daemon.stop();
}

function cleanUp(): string {
  return execFileSync(program, ["--cleanup"], { encoding: "utf8" });
}

const directions: readonly (readonly [Backend, Backend])[] = [
  ["legacy", "nft"],
  ["nft", "legacy"],
];

for (const [before, after] of directions) {
  describe(`a node that moves from ${before} to ${after}`, () => {
    it("keeps no rule of ours in the old backend, and all of others", async () => {
      await inNamespace(async () => {
        hint(before, "-N");
        await runOnce();
        const count = ours(before).length;
        assert.ok(count > 40, `${count} lines`);
        assert.deepEqual(ours(after), []);
        shell(`iptables-${before} -A INPUT -s 192.0.2.1 -j DROP`);
        hint(before, "-X");
        hint(after, "-N");
        const daemon = await start();
        await eventually(() => ours(before), [], noticedMs);
        assert.equal(ours(after).length, count);
        assert.ok(savedRules(before).includes("-A INPUT -s 192.0.2.1/32 -j DROP"));
        assert.deepEqual(daemon.errors, []);
        assert.equal(
          daemon.lines.filter(({ event }) => /Removed rules of an earlier run/.test(event)).length,
          1,
        );
        await daemon.stop();
      });
    });

    it("is cleaned by --cleanup in both backends", async () => {
      await inNamespace(async () => {
        hint(before, "-N");
        await runOnce();
        hint(before, "-X");
        hint(after, "-N");
        assert.ok(ourSets().length > 10);
        const printed = cleanUp();
        assert.match(printed, new RegExp(`iptables chains and jumps from ${before}`));
        assert.deepEqual([ours(before), ours(after), ourSets()], [[], [], []]);
      });
    });

    it("keeps a chain that a rule of others leads to, and names it", async () => {
      await inNamespace(async () => {
        hint(before, "-N");
        await runOnce();
        shell(`iptables-${before} -t nat -N OTHERS`);
        shell(`iptables-${before} -t nat -A OTHERS -j KUBE-MARK-MASQ`);
        hint(before, "-X");
        hint(after, "-N");
        const printed = cleanUp();
        assert.match(printed, new RegExp(`Kept IPv4 nat KUBE-MARK-MASQ in ${before}`));
        assert.equal(ours(before).filter((line) => line.startsWith(":")).length, 1);
      });
    });
  });
}

describe("the table of kube-proxy's mode nftables", () => {
  const tables = (): readonly string[] => shell("nft list tables").split("\n").filter(Boolean);

  it("is removed after the first sync, and other tables stay", async () => {
    await inNamespace(async () => {
      hint("legacy", "-N");
      shell("nft add table ip kube-proxy; nft add table ip6 kube-proxy; nft add table ip other");
      shell("nft add chain ip kube-proxy services; nft add rule ip kube-proxy services counter");
      const daemon = await start();
      const ofKubeProxy = (): boolean => tables().some((table) => / kube-proxy$/.test(table));
      await eventually(ofKubeProxy, false, noticedMs);
      assert.ok(tables().includes("table ip other"));
      assert.deepEqual(daemon.errors, []);
      await daemon.stop();
    });
  });
});

describe("native nftables rules in the tables of iptables-nft", () => {
  const natives: readonly (readonly [what: string, chain: string, rule: string])[] = [
    ["a masquerade", "nat POSTROUTING", "oifname eth0 masquerade"],
    ["one that iptables cannot even pass over", "filter INPUT", "ct state established accept"],
  ];
  const other = service({ name: "other", clusterIps: ["10.96.0.77"] });

  for (const [what, chain, rule] of natives) {
    it(`do not keep a new Service from being served: ${what}`, async () => {
      await inNamespace(async () => {
        hint("nft", "-N");
        const daemon = await start();
        shell(`nft add rule ip ${chain} ${rule}`);
        daemon.apply(other, endpointSlice({ service: "other", endpoints: ["10.244.2.12"] }));
        await daemon.settled();
        assert.match(shell("ipvsadm -Sn"), /-A -t 10\.96\.0\.77:80/);
        shell("iptables-nft -t nat -F KUBE-MARK-MASQ; iptables-nft -t nat -F PREROUTING");
        const lost = (): number =>
          shell("iptables-nft -t nat -S KUBE-MARK-MASQ; nft list chain ip nat PREROUTING").match(
            /--set-xmark|jump KUBE-SERVICES/g,
          )?.length ?? 0;
        await eventually(lost, 2, noticedMs);
        assert.deepEqual(daemon.errors, []);
        await daemon.stop();
      });
    });

    it(`survive a restart and a clean-up: ${what}`, async () => {
      await inNamespace(async () => {
        hint("nft", "-N");
        await runOnce();
        const [table = "", name = ""] = chain.split(" ");
        shell(`nft add rule ip ${chain} ${rule}`);
        const listed = shell(`nft list chain ip ${table} ${name}`).replaceAll(
          /packets.*bytes \d+/g,
          "",
        );
        await runOnce();
        const again = shell(`nft list chain ip ${table} ${name}`).replaceAll(
          /packets.*bytes \d+/g,
          "",
        );
        assert.equal(again, listed);
        cleanUp();
        assert.deepEqual(ourSets(), []);
        assert.doesNotMatch(
          shell("nft list ruleset").replaceAll("KUBE-IPTABLES-HINT", ""),
          /KUBE-/,
        );
        assert.match(shell(`nft list chain ip ${table} ${name}`), /masquerade|ct state/);
      });
    });
  }
});
