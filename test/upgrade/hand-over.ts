/**
 * Hands a node over from another proxy to the current build and back, and cleans up, under traffic. Prints the result
 * of each step. In the lab: node test/lab/boot.ts -- node test/upgrade/hand-over.ts 'kube-proxy --config={config}'
 * [MODE] [OUR-MODE]. MODE is `ipvs` or `iptables`, for both programs if OUR-MODE is absent. Exit status 1: a connection
 * broke, a new one failed, or something was left behind.
 */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { ask } from "../faults/ask.ts";
import { Traffic } from "../faults/traffic.ts";
import { compareStates, type Difference, differenceText } from "../golden/kernel-state.ts";
import { observeKernel } from "../golden/observe.ts";
import { ApiServer } from "../support/api-server/api-server.ts";
import { enterNetworkNamespace, shell } from "../support/netns/network-namespace.ts";
import { type PeerMode, peerTitle } from "../support/peer.ts";
import { Program } from "../support/program.ts";
import { nodeWithNeighbours, podNamespace, targets } from "./node.ts";
import { objects } from "./objects.ts";
import { stableState, startOtherProxy } from "./other-proxy.ts";

const [template = "", mode = "ipvs", ourMode = mode] = process.argv.slice(2);
/** Time without any program, about as long as a DaemonSet takes to start the next pod. */
const gapMs = 1_000;
const longCount = 10 * targets.length;
const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-hand-over-"));

shell(nodeWithNeighbours.join("\n"));
enterNetworkNamespace("node");
const untouched = await observeKernel([]);
const server = await ApiServer.start({ objects });
let isWell = true;

function startPeer(): Promise<Program> {
  return startOtherProxy(template, { server: server.url, mode: mode as PeerMode, folder });
}

function startOurs(): Program {
  return new Program([
    "--hostname-override=node-1",
    "--cluster-cidr=10.244.0.0/16",
    `--proxy-mode=${ourMode}`,
    "--conntrack-max-per-core=0",
    `--master=${server.url}`,
    "-v=3",
  ]);
}

async function end(running: Program): Promise<void> {
  running.kill("SIGTERM");
  await running.ends();
  await pause(gapMs);
}

async function reportTraffic(step: string): Promise<void> {
  const { long, broken, short, failed, reasons } = await traffic.take();
  console.log(
    `${step}: ${long} connections open, ${broken} broken; ${failed} of ${short} new ones failed`,
  );
  if (long !== longCount || broken + failed > 0) {
    isWell = false;
    console.log(JSON.stringify(reasons));
  }
}

function report(title: string, differences: readonly Difference[]): void {
  console.log(`${title}: ${differences.length} lines differ`);
  for (const difference of differences) console.log(`  ${differenceText(difference)}`);
}

/** Sysctls do not change. Neither do the kernel's own chains once a table exists. */
function isLeft({ file, line }: Difference): boolean {
  return file !== "sysctl" && !/^:[A-Z]+ ACCEPT$/.test(line);
}

console.log(`${peerTitle(template)} in ${mode} mode, the current build in ${ourMode} mode`);
const first = await startPeer();
const ofPeer = await stableState();
// Traffic starts only now, because conntrack never translates connections that are older than the rules.
const traffic = new Traffic(podNamespace, targets);
while ((await traffic.take()).long < longCount) await pause(500);
await reportTraffic("under the other proxy");
await end(first);

const ours = startOurs();
await ours.prints(/SyncProxyRules complete/);
const ofOurs = await stableState();
await reportTraffic("handed over to kube-ipvs");
const { text } = await ask("http://127.0.0.1:10249/metrics");
for (const [line] of text.matchAll(/^kube_ipvs_kernel_changes_total\{.*$/gm))
  console.log(`  ${line}`);
report("what kube-ipvs changed", compareStates(ofPeer, ofOurs));
await end(ours);

const second = await startPeer();
const ofPeerAgain = await stableState();
await reportTraffic("handed back");
report("what the other proxy changed", compareStates(ofOurs, ofPeerAgain));
report("differences from its first state", compareStates(ofPeer, ofPeerAgain));
await end(second);

await traffic.stop();
const cleanUp = new Program(["--cleanup"]);
const { code } = await cleanUp.ends();
console.log(`kube-ipvs --cleanup: status ${code}\n${cleanUp.output.trimEnd()}`);
const left = compareStates(untouched, await observeKernel([])).filter(isLeft);
report("left behind", left);
if (left.length > 0 || code !== 0) isWell = false;
await server.stop();
process.exit(isWell ? 0 : 1);
