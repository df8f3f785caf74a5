/** The demo itself, which runs inside the lab. Each check has a verdict, and the exit status combines them. */
import { shell } from "../support/netns/network-namespace.ts";
import { Cluster, clusterIp, pods } from "./cluster.ts";
import { show, showEnd, showStep, showVerdict, startDots } from "./screen.ts";
import { type Step, steps } from "./steps.ts";

/** Commands that each remove an object while the daemon is paused. A test verifies that the demo detects the loss. */
const sabotages: Readonly<Record<string, string>> = {
  "masquerade-rule":
    "iptables -t nat -D KUBE-POSTROUTING -m comment --comment 'kubernetes service traffic requiring SNAT' -j MASQUERADE --random-fully",
  "real-server": `ipvsadm -d -t ${clusterIp}:80 -r 10.244.1.20:8080`,
  "set-entry": `ipset del KUBE-CLUSTER-IP ${clusterIp},tcp:80`,
};

const isSabotaged = process.env["DEMO_SABOTAGE"] !== undefined;

async function prepare(cluster: Cluster): Promise<void> {
  showStep(1, "A client, a node and three pods; kube-ipvs on a folder of manifests");
  await cluster.build();
  cluster.writeManifests(pods);
  await cluster.startDaemon();
  showVerdict(true, "the pods answer, the daemon runs, the Service is in the kernel");
  const sabotage = sabotages[process.env["DEMO_SABOTAGE"] ?? ""];
  if (sabotage === undefined) return;
  cluster.freezeDaemon();
  show(`$ ${sabotage}`);
  shell(sabotage);
}

/** Returns the number of failed checks. */
async function runStep(step: Step, number: number, cluster: Cluster): Promise<number> {
  showStep(number, step.title);
  const checks = await step.run(cluster);
  for (const { text, isGood } of checks) showVerdict(isGood, text);
  return checks.filter(({ isGood }) => !isGood).length;
}

async function main(): Promise<number> {
  const beganMs = performance.now();
  const cluster = new Cluster();
  startDots();
  let failed = 0;
  try {
    await prepare(cluster);
    for (const [index, step] of steps.entries()) {
      failed += await runStep(step, index + 2, cluster);
      // The demo's test needs no further steps.
      if (failed > 0 && isSabotaged) break;
    }
  } catch (error) {
    failed += 1;
    showVerdict(false, error instanceof Error ? error.message : String(error));
  } finally {
    if (failed > 0) show(`--- daemon log ---\n${cluster.daemonLog}`);
    await cluster.destroy();
  }
  showEnd(failed, (performance.now() - beganMs) / 1000);
  return failed === 0 ? 0 : 1;
}

process.exitCode = await main();
