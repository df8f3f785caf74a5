/**
 * Measures the CPU time of kernel state checks with 5,000 Services of 5 endpoints each, or with a different number of
 * Services: node test/lab/boot.ts --memory 4G -- node test/lab/measure-checks.ts [SERVICES]
 */
import { readFileSync } from "node:fs";
import { systemClock } from "../../src/base/clock.ts";
import type { IpAddress } from "../../src/base/ip.ts";
import { silentLogger } from "../../src/base/log.ts";
import { openKernel } from "../../src/kernel/open-kernel.ts";
import { planRules } from "../../src/plan/rules.ts";
import { planSysctls } from "../../src/plan/sysctls.ts";
import { Reconciler } from "../../src/reconcile/reconciler.ts";
import type { SyncGoal } from "../../src/reconcile/sync-goal.ts";
import { nodeSetUp } from "../golden/node-set-up.ts";
import { desiredFrom, positions, serviceOf, sliceOf } from "../support/many-services.ts";
import { withNetworkNamespace } from "../support/netns/network-namespace.ts";

const serviceCount = Number(process.argv[2] ?? 5_000);
const endpointCount = 5;
const tickMs = 10;
/** The value in kernel-checks.ts with the default period. */
const periodsPerRound = 8;

/** Milliseconds of CPU time of this process and its child processes. */
function spentMs(): number {
  const { user, system } = process.cpuUsage();
  const fields = readFileSync("/proc/self/stat", "latin1").split(") ")[1]?.split(" ") ?? [];
  return (user + system) / 1000 + (Number(fields[13]) + Number(fields[14])) * tickMs;
}

async function cost(times: number, check: () => Promise<unknown>): Promise<number> {
  await check();
  const beganMs = spentMs();
  for (let time = 0; time < times; time += 1) await check();
  return (spentMs() - beganMs) / times;
}

function goal(): SyncGoal {
  const objects = Array.from({ length: serviceCount }, (_, index) => [
    serviceOf(index),
    sliceOf(index, positions(endpointCount)),
  ]).flat();
  const addresses = ["192.168.10.11", "172.16.5.11"] as readonly string[] as readonly IpAddress[];
  const desired = desiredFrom(objects, addresses);
  const rules = (["IPv4", "IPv6"] as const).map((family) => {
    const input = { family, filledSets: desired.filledSets(family), localDetector: undefined };
    const more = { deniedToNode: [], masqueradeAll: false, masqueradeMark: 0x4000 };
    return [family, planRules({ ...input, ...more })] as const;
  });
  return {
    desired,
    touched: desired.takeDirty(),
    missingModules: [],
    ownership: { foreignVirtualServers: "keep", excludeCIDRs: [] },
    drain: { tcpDeadlineSeconds: 900, udpDeadlineSeconds: 0 },
    manualWeights: "keep",
    rules: new Map(rules),
    nodeAddresses: new Set(addresses),
    sysctls: planSysctls({ strictARP: false, kernelRelease: "6.1.0" }),
  };
}

await withNetworkNamespace("costs", [...nodeSetUp], async () => {
  const kernel = await openKernel({ log: silentLogger });
  const reconciler = new Reconciler({ kernel, clock: systemClock, log: silentLogger });
  const { verification } = reconciler;
  const wanted = goal();
  const { failures } = await reconciler.sync(wanted);
  let steps = 0;
  const period = async (): Promise<void> => {
    for (const step of await verification.beginPeriod(wanted.sysctls, periodsPerRound)) {
      await step();
      steps += 1;
    }
    if (reconciler.needsSync) throw new Error("The kernel state has changed");
  };
  const checks = [
    { name: "headers of sets", seconds: 5, ms: await cost(20, () => verification.checkSets()) },
    { name: "rules", seconds: 10, ms: await cost(10, () => verification.checkRules(wanted.rules)) },
    { name: "verification", seconds: 30, ms: await cost(2 * periodsPerRound, period) },
  ];
  console.log(`real servers in ${steps} steps`);
  let share = 0;
  console.log(`${serviceCount} Services × ${endpointCount} endpoints, ${failures.length} failures`);
  for (const { name, seconds, ms } of checks) {
    share += ms / (seconds * 1000);
    console.log(
      `${name.padEnd(22)} ${ms.toFixed(1).padStart(7)} ms each ${String(seconds).padStart(2)} s ` +
        `${(ms / seconds / 10).toFixed(2)}%`,
    );
  }
  console.log(`in total ${(share * 100).toFixed(2)}% of one processor`);
  kernel.close();
});
