/**
 * Tests moves between iptables and nf_tables that SIGKILL interrupts. The moves begin with states of kube-ipvs, of an
 * earlier version and of kube-proxy. A change of the configuration file ends a running kube-ipvs, and the test restarts
 * it, as kubelet does. During all moves, clients have open connections and open new ones, and one client tries to reach
 * a Service that must not admit it.
 */
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Traffic } from "../../faults/traffic.ts";
import { configurationText } from "../../golden/configuration.ts";
import type { KernelState } from "../../golden/kernel-state.ts";
import { replayLines } from "../../golden/replay.ts";
import { readScenario } from "../../golden/scenario.ts";
import { eventually } from "../../support/lab-daemon.ts";
import { enterNetworkNamespace, shell } from "../../support/netns/network-namespace.ts";
import { clientAddress, nodeAddress } from "../../support/node-network.ts";
import type { ApiObject } from "../../support/objects.ts";
import { Program } from "../../support/program.ts";
import { inNftOrder, rulesOfIptables } from "../../support/rules-writer.ts";
import { seededRandom, seeds } from "../../support/seeds.ts";
import { nodeWithNeighbours, podNamespace, targets } from "../../upgrade/node.ts";
import { objects } from "../../upgrade/objects.ts";

type Writer = "iptables" | "nftables";
/** On this node, `auto` means iptables. */
type Setting = Writer | "auto";

const caseSeeds = seeds({ short: 1, long: 5 });
/** Number of kills in each move. The start after the last kill finishes the move. */
const killsPerMove = 2;
const noticedMs = 60_000;
const statesFolder = join(import.meta.dirname, "../../upgrade/states");
const [olderState = ""] = readdirSync(statesFolder).sort();

interface Start {
  readonly name: string;
  readonly objects: readonly ApiObject[];
  /** Shell lines that create the initial state. If undefined, kube-ipvs creates it with iptables. */
  readonly state?: readonly string[];
  /** See `traffic-client.ts`. */
  readonly targets: readonly string[];
}

const [sourceRanges] = readScenario("lb-source-ranges").steps;

function replayed({ health: _, ...state }: KernelState): readonly string[] {
  return replayLines(state);
}

/** More clients of the targets, and the load balancer's clients: one inside its source ranges, and one outside. */
const ofGate = [
  ...targets,
  "10.96.0.10:80@192.168.10.3",
  `${nodeAddress}:30443@192.168.10.4`,
  "198.51.100.80:443@203.0.113.9",
  `!198.51.100.80:443@${clientAddress}`,
];

const starts: readonly Start[] = [
  { name: "kube-ipvs", objects, targets: ofGate },
  {
    name: `an earlier version (${olderState})`,
    objects,
    state: replayed(
      JSON.parse(readFileSync(join(statesFolder, olderState), "utf8")) as KernelState,
    ),
    targets: ofGate,
  },
  {
    name: "kube-proxy 1.36.2",
    objects: (sourceRanges?.apply ?? []) as readonly unknown[] as readonly ApiObject[],
    state: replayed(sourceRanges?.recorded ?? {}),
    targets: [
      `10.96.0.10:80@${clientAddress}`,
      `${nodeAddress}:30080@192.168.10.2`,
      "203.0.113.5:80@192.0.2.9",
      `!203.0.113.5:80@${clientAddress}`,
    ],
  },
];

/** Client and pod addresses in addition to those in `node.ts`. */
const moreAddresses: readonly string[] = [
  ...["203.0.113.9", "192.0.2.9", "192.168.10.3", "192.168.10.4"].map(
    (one) => `ip -n client address add ${one}/32 dev eth0`,
  ),
  ...["198.51.100.80", "203.0.113.5"].map(
    (one) => `ip -n client route add ${one} via ${nodeAddress}`,
  ),
  `ip -n ${podNamespace} address add 10.244.2.12/32 dev eth0`,
  `ip -n node route add 10.244.2.12/32 dev veth1 src ${nodeAddress}`,
];

/** All rules and sets of each writer in a fixed order, without packet counters. */
const contents: Readonly<Record<Writer, () => string>> = {
  iptables: rulesOfIptables,
  nftables: () =>
    inNftOrder(
      shell(
        "for family in ip ip6; do nft -s list table $family kube-ipvs 2> /dev/null || true; done",
      ),
    ),
};

const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-moves-"));
const configFolder = mkdtempSync(join(tmpdir(), "kube-ipvs-config-"));
const configFile = join(configFolder, "config.conf");
let program: Program | undefined;

before(() => {
  shell([...nodeWithNeighbours, ...moreAddresses].join("\n"));
  enterNetworkNamespace("node");
});

after(async () => {
  await stop("SIGKILL");
  for (const one of [folder, configFolder]) rmSync(one, { recursive: true });
});

/** Replaces the configuration file, as in a ConfigMap volume. A running program must exit. */
async function configure(rules: Setting): Promise<void> {
  const kubeIpvs = { manifests: folder, configReload: true, rules };
  const text = configurationText({ kubeIpvs });
  writeFileSync(`${configFile}.new`, text);
  renameSync(`${configFile}.new`, configFile);
  if (program === undefined) return;
  assert.deepEqual(await program.ends(), { code: 1, signal: null });
  assert.match(program.failures.join(), /different value of kubeIpvs\.rules, exiting to restart$/);
  program = undefined;
}

function start(): Program {
  program = new Program([`--config=${configFile}`, "-v=3"]);
  return program;
}

async function stop(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
  program?.kill(signal);
  await program?.ends();
  program = undefined;
}

/** Finishes a move without interruption. Returns the duration from the program's start, and the new contents. */
async function finishMove({ from, to }: Move): Promise<{ ms: number; contents: string }> {
  const beganMs = performance.now();
  const running = start();
  await running.prints(/SyncProxyRules complete/);
  await eventually(contents[from], "", noticedMs);
  const ms = performance.now() - beganMs;
  assert.doesNotMatch(running.output, /^[EF]/m);
  return { ms, contents: contents[to]() };
}

/** Removes everything from the previous case. */
async function empty(): Promise<void> {
  await stop("SIGTERM");
  const cleaning = new Program(["--cleanup"]);
  assert.equal((await cleaning.ends()).code, 0, cleaning.output);
  assert.deepEqual([contents.iptables(), contents.nftables()], ["", ""]);
  assert.equal(shell("ipvsadm -Sn"), "");
  shell(`rm -rf /run/kube-ipvs; rm -f ${folder}/*`);
}

async function prepare({ objects: given, state }: Start): Promise<void> {
  await empty();
  for (const [index, object] of given.entries()) {
    writeFileSync(join(folder, `${index}.json`), JSON.stringify(object));
  }
  if (state !== undefined) {
    shell(state.join("\n"));
    return;
  }
  await configure("iptables");
  await start().prints(/SyncProxyRules complete/);
}

async function assertUndisturbed(traffic: Traffic, longCount: number): Promise<string> {
  const { long, broken, failed, admitted, reasons, ...counts } = await traffic.take();
  assert.deepEqual(
    { long, broken, failed, admitted, reasons },
    { long: longCount, broken: 0, failed: 0, admitted: 0, reasons: {} },
  );
  assert.ok(counts.short > 0 && counts.tried > 0);
  return `${long} open connections, ${counts.short} new ones, ${counts.tried} attempts without admission`;
}

interface Move {
  readonly from: Writer;
  readonly to: Writer;
  readonly setting: Setting;
}

const moves: readonly Move[] = [
  { from: "iptables", to: "nftables", setting: "nftables" },
  { from: "nftables", to: "iptables", setting: "auto" },
];

for (const begin of starts) {
  describe(`moves from the state of ${begin.name}`, () => {
    const complete = new Map<Writer, string>();
    const durationMs = new Map<Writer, number>();

    before(async () => {
      await prepare(begin);
      for (const one of moves) {
        const { to, setting } = one;
        await configure(setting);
        const moved = await finishMove(one);
        complete.set(to, moved.contents);
        durationMs.set(to, moved.ms);
      }
      assert.notEqual(complete.get("iptables"), complete.get("nftables"));
    });

    for (const seed of caseSeeds) {
      it(`end after SIGKILL at random moments, seed ${seed}`, async (test) => {
        const random = seededRandom(seed);
        await prepare(begin);
        const longCount = 10 * begin.targets.filter((target) => !target.startsWith("!")).length;
        const traffic = new Traffic(podNamespace, begin.targets);
        try {
          await eventually(async () => (await traffic.take()).long, longCount, noticedMs);
          for (const one of moves) {
            const { from, to, setting } = one;
            const old = contents[from]();
            await configure(setting);
            await assertUndisturbed(traffic, longCount);
            for (let kills = 0; kills < killsPerMove; kills++) {
              const delayMs = Math.round(random() * (durationMs.get(to) ?? 0));
              start();
              await pause(delayMs);
              await stop("SIGKILL");
              const [left, written] = [contents[from](), contents[to]()];
              const isOldWhole = left === old;
              const isNewWhole = written === complete.get(to);
              test.diagnostic(
                `to ${to}, killed after ${delayMs} ms: ${left === "" ? "no" : isOldWhole ? "whole" : "parts of"} ${from}, ${written === "" ? "no" : isNewWhole ? "whole" : "parts of"} ${to}`,
              );
              assert.ok(isOldWhole || isNewWhole, `${left}\n${written}`);
              await assertUndisturbed(traffic, longCount);
            }
            const moved = await finishMove(one);
            assert.equal(moved.contents, complete.get(to));
            test.diagnostic(await assertUndisturbed(traffic, longCount));
          }
        } finally {
          await traffic.stop();
        }
      });
    }
  });
}
