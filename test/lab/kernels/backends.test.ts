/**
 * Tests both iptables backends in one kernel: the node's backend changes between two runs, and iptables-nft tables
 * contain native nftables rules. Needs a kernel with both backends.
 */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { chooseBackend } from "../../../src/kernel/iptables/backend.ts";
import { runProgram } from "../../../src/kernel/run-program.ts";
import { ask } from "../../faults/ask.ts";
import { nodeSetUp } from "../../golden/node-set-up.ts";
import { ClusterNode } from "../../support/cluster-node.ts";
import { iptablesModeRules } from "../../support/iptables-mode.ts";
import { eventually, type LabDaemon, startLabDaemon } from "../../support/lab-daemon.ts";
import { positions } from "../../support/many-services.ts";
import { shell, withNetworkNamespace } from "../../support/netns/network-namespace.ts";
import { endpointSlice, service, servicePort } from "../../support/objects.ts";

type Backend = "legacy" | "nft";

const program = join(import.meta.dirname, "../../../dist/kube-ipvs");
const web = service({ type: "NodePort", ports: [servicePort({ nodePort: 30_080 })] });
const slice = endpointSlice({ endpoints: ["10.244.2.11"] });
const noticedMs = 60_000;
const foreignRuleCount = 5_000;
const measuredSeconds = 40;
/** The default interval of rule checks. */
const usualCheckMs = 10_000;
const usualPeriods = {
  ipvs: { syncPeriod: "30s" },
  kubeIpvs: { ruleCheckPeriod: "10s", verificationPeriod: "30s" },
};
/** The maximum CPU share in the lab, where starting a process is ten times as expensive as elsewhere. */
const mostShare = 0.06;

function inNamespace(body: () => Promise<void>): Promise<void> {
  return withNetworkNamespace("backends", nodeSetUp, body);
}

/** Creates or deletes the chain from which other programs learn the iptables backend that the kubelet uses. */
function hint(backend: Backend, command: "-N" | "-X"): void {
  shell(`iptables-${backend} -t mangle ${command} KUBE-IPTABLES-HINT`);
}

function savedRules(backend: Backend): readonly string[] {
  return shell(`iptables-${backend}-save; ip6tables-${backend}-save`).split("\n");
}

/** Lines about kube-ipvs's chains: declarations, rules, jumps. */
function ours(backend: Backend): readonly string[] {
  return savedRules(backend).filter((line) => /KUBE-/.test(line) && !/IPTABLES-HINT/.test(line));
}

function ourSets(): readonly string[] {
  return shell("ipset list -n")
    .split("\n")
    .filter((name) => name.startsWith("KUBE-"));
}

/** Starts the daemon with the backend that it detects now. */
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
    it("keeps no rule of kube-ipvs in the old backend, but all third-party rules", async () => {
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
        const removals = (): number =>
          daemon.lines.filter(({ event }) => /Removed leftover iptables rules/.test(event)).length;
        try {
          // Logged after the rules of both families have been removed.
          await eventually(removals, 1, noticedMs);
          assert.deepEqual(ours(before), []);
          assert.equal(ours(after).length, count);
          assert.ok(savedRules(before).includes("-A INPUT -s 192.0.2.1/32 -j DROP"));
          assert.deepEqual(daemon.errors, []);
        } finally {
          await daemon.stop();
        }
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

    it("causes a doctor warning", async () => {
      await inNamespace(async () => {
        hint(before, "-N");
        await runOnce();
        hint(before, "-X");
        hint(after, "-N");
        shell(`iptables-${after} -A INPUT -s 192.0.2.1 -j DROP`);
        const manifests = join(import.meta.dirname, "../../../docs/examples");
        const flags = ["doctor", "--manifests", manifests, "-o", "json"];
        const { stdout } = spawnSync(program, flags, { encoding: "utf8" });
        const { checks } = JSON.parse(stdout) as {
          readonly checks: readonly { readonly name: string; readonly verdict: string }[];
        };
        const found = checks.find(({ name }) => name === "iptables-backends");
        assert.equal(found?.verdict, "warn", JSON.stringify(found));
      });
    });

    it("keeps and reports a chain that a third-party rule refers to", async () => {
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

describe("leftovers of kube-proxy's other modes", () => {
  const tables = (): readonly string[] => shell("nft list tables").split("\n").filter(Boolean);
  const addTables = (): unknown =>
    shell(`
      nft add table ip kube-proxy; nft add table ip6 kube-proxy; nft add table ip other
      nft add chain ip kube-proxy services; nft add rule ip kube-proxy services counter
    `);
  const ofKubeProxy = (): boolean => tables().some((table) => / kube-proxy$/.test(table));
  const ofIptablesMode = (backend: Backend): readonly string[] =>
    ours(backend).filter((line) => /KUBE-(?:SVC|SEP|SVL|EXT|FW)-|has no endpoints/.test(line));

  for (const backend of ["legacy", "nft"] as const) {
    it(`nftables mode: its table is removed after the first sync, and other tables remain; ${backend}`, async () => {
      await inNamespace(async () => {
        hint(backend, "-N");
        addTables();
        const daemon = await start();
        await eventually(ofKubeProxy, false, noticedMs);
        assert.ok(tables().includes("table ip other"));
        assert.deepEqual(daemon.errors, []);
        await daemon.stop();
        assert.ok(ours(backend).length > 40);
      });
    });

    it(`nftables mode: --cleanup removes its table; ${backend}`, async () => {
      await inNamespace(async () => {
        hint(backend, "-N");
        addTables();
        assert.match(
          cleanUp(),
          /Removed +1 nft table of kube-proxy's nftables mode: ip kube-proxy/,
        );
        assert.deepEqual([ofKubeProxy(), tables().includes("table ip other")], [false, true]);
      });
    });
  }

  const places: readonly (readonly [rules: Backend, inUse: Backend])[] = [
    ["nft", "nft"],
    ["nft", "legacy"],
    ["legacy", "nft"],
  ];
  for (const [rules, inUse] of places) {
    it(`iptables mode: reported in ${rules} while ${inUse} is in use, then removed by --cleanup`, async () => {
      await inNamespace(async () => {
        const left = iptablesModeRules.replace(":KUBE-IPTABLES-HINT - [0:0]\n", "");
        execFileSync(`iptables-${rules}-restore`, {
          input: left.replace(/:KUBE-KUBELET.*\n/g, ""),
        });
        hint(inUse, "-N");
        const daemon = await start();
        const named = daemon.lines.filter(({ event }) =>
          /^Found rules of .* iptables$/.test(event),
        );
        assert.deepEqual(
          named.map(({ keys }) => [keys["backends"], keys["chainCount"]]),
          [[[rules], 12]],
        );
        assert.ok(ofIptablesMode(rules).length > 10);
        await daemon.stop();
        assert.match(
          cleanUp(),
          rules === inUse ? /Removed +\d+ iptables/ : new RegExp(`and jumps from ${rules}`),
        );
        assert.deepEqual([ofIptablesMode(rules), ofIptablesMode(inUse)], [[], []]);
        assert.deepEqual(ourSets(), []);
      });
    });
  }
});

describe("native nftables rules in iptables-nft tables", () => {
  const natives: readonly (readonly [what: string, chain: string, rule: string])[] = [
    ["a masquerade", "nat POSTROUTING", "oifname eth0 masquerade"],
    ["one that iptables cannot even skip", "filter INPUT", "ct state established accept"],
  ];
  const other = service({ name: "other", clusterIps: ["10.96.0.77"] });

  for (const [what, chain, rule] of natives) {
    it(`do not prevent a new Service from being served: ${what}`, async () => {
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

/** The built program with a short sync period, so that failing syncs make it unhealthy within seconds. */
describe("the built program", () => {
  const settings = { ipvs: { syncPeriod: "2s" }, kubeIpvs: { ruleCheckPeriod: "1s" } };
  const objects = [web, slice];
  /** Native rules, with their text in `nft list` output. */
  const natives = [
    { table: "nat", chain: "POSTROUTING", rule: 'oifname "eth0" masquerade' },
    { table: "filter", chain: "INPUT", rule: "ct state established accept" },
  ] as const;
  /** Longer than kube-proxy's timeout, which is twice the sync period. */
  const unhealthyAfterMs = 6_000;

  for (const { table, chain, rule } of natives) {
    it(`with one native rule in ip ${table}: stays healthy, reports it once, and keeps writing other objects`, async () => {
      await inNamespace(async () => {
        hint("nft", "-N");
        shell("iptables-nft -t nat -A POSTROUTING -s 192.0.2.1 -j RETURN; iptables-nft -A INPUT");
        shell(`nft 'add rule ip ${table} ${chain} ${rule}'`);
        const node = await ClusterNode.build(objects, settings);
        try {
          await node.start();
          const later = service({ name: "later", clusterIps: ["10.96.0.78"] });
          node.api.apply(later, endpointSlice({ service: "later", endpoints: ["10.244.2.13"] }));
          const isBound = (): boolean =>
            shell("ip -o -4 address show kube-ipvs0").includes("10.96.0.78/32");
          await node.until("the later Service's address is bound", isBound);
          assert.match(shell("ipvsadm -Sn"), /-a -t 10\.96\.0\.78:80 -r 10\.244\.2\.13:80/);
          shell("ipset test KUBE-CLUSTER-IP 10.96.0.78,tcp:80 2> /dev/null");
          const asks = ["healthz", "livez", "readyz"].map((path) => async () => {
            const { status } = await ask(`http://127.0.0.1:10256/${path}`);
            return status;
          });
          for (
            const untilMs = performance.now() + unhealthyAfterMs;
            performance.now() < untilMs;
          ) {
            assert.deepEqual(await Promise.all(asks.map((one) => one())), [200, 200, 200]);
            await pause(500);
          }
          const named = node.lines().filter(({ msg }) => /nftables rules that iptables/.test(msg));
          assert.deepEqual(
            named.map(({ chains }) => chains),
            [[`${table} ${chain}`]],
          );
          const listed = shell(`nft list chain ip ${table} ${chain}`);
          assert.ok(listed.includes(rule) && listed.includes("jump KUBE-"), listed);
        } finally {
          await node.close();
        }
      });
    });
  }

  for (const backend of ["nft", "legacy"] as const) {
    it(`uses little CPU time with ${foreignRuleCount} third-party rules and one more each second: ${backend}`, async (test) => {
      await inNamespace(async () => {
        hint(backend, "-N");
        const lines = positions(foreignRuleCount).map((index) => foreignRule(index));
        const input = `*nat\n:OTHERS - [0:0]\n${lines.join("\n")}\nCOMMIT\n`;
        execFileSync(`iptables-${backend}-restore`, ["--noflush"], { input });
        const node = await ClusterNode.build(objects, usualPeriods);
        try {
          await node.start();
          await pause(usualCheckMs);
          const began = { ticks: processorTicks(node.program.pid), ms: performance.now() };
          for (const second of positions(measuredSeconds)) {
            const beganMs = performance.now();
            shell(`iptables-${backend} -t nat ${foreignRule(foreignRuleCount + second)}`);
            await pause(Math.max(0, 1_000 - (performance.now() - beganMs)));
          }
          const ticks = processorTicks(node.program.pid) - began.ticks;
          const share = (ticks * 10) / (performance.now() - began.ms);
          const figure = `${(share * 100).toFixed(1)}% of a CPU`;
          test.diagnostic(`with ${foreignRuleCount} third-party rules in ${backend}: ${figure}`);
          assert.ok(share < mostShare, `${share}`);
          assert.equal(await node.metric("kube_ipvs_drift_detected_total", { kind: "rules" }), 0);
        } finally {
          await node.close();
        }
      });
    });
  }
});

function foreignRule(index: number): string {
  return `-A OTHERS -s 10.${index >> 8}.${index & 255}.1/32 -p tcp -m tcp --dport 80 -j RETURN`;
}

/** CPU time in 10 ms ticks, of the process and of the programs that it waited for; proc_pid_stat(5). */
function processorTicks(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
}
