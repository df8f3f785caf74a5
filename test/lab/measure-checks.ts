/**
 * What the looks at kernel state cost at 5,000 Services with 5 endpoints each, in processor time:
 *
 *     node test/lab/boot.ts -- node test/lab/measure-checks.ts
 */
import { readFileSync } from "node:fs";
import { systemClock } from "../../src/base/clock.ts";
import type { IpAddress } from "../../src/base/ip.ts";
import { silentLogger } from "../../src/base/log.ts";
import { openKernel } from "../../src/kernel/open-kernel.ts";
import { planRules } from "../../src/plan/rules.ts";
import { planSysctls } from "../../src/plan/sysctls.ts";
import { Reconciler } from "../../src/reconcile/reconciler.ts";
import type { SyncGoal } from "../../src/reconcile/sync-context.ts";
import { nodeSetUp } from "../golden/node-world.ts";
import { desiredFrom, positions, serviceOf, sliceOf } from "../support/many-services.ts";
import { withNetworkNamespace } from "../support/netns/network-namespace.ts";

const serviceCount = 5_000;
const endpointCount = 5;
const tickMs = 10;

/** Milliseconds of processor time: of this process, and of those that it started. */
function spentMs(): number {
  const { user, system } = process.cpuUsage();
  const fields = readFileSync("/proc/self/stat", "latin1").split(") ")[1]?.split(" ") ?? [];
  return (user + system) / 1000 + (Number(fields[13]) + Number(fields[14])) * tickMs;
}

async function cost(times: number, look: () => Promise<unknown>): Promise<number> {
  await look();
  const beganMs = spentMs();
  for (let time = 0; time < times; time += 1) await look();
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
    const more = { deniedToNode: [], isMasqueradeAll: false, masqueradeMark: 0x4000 };
    return [family, planRules({ ...input, ...more })] as const;
  });
  return {
    desired,
    dirty: "all",
    rules: new Map(rules),
    nodeAddresses: new Set(addresses),
    sysctls: planSysctls({ isStrictArp: false, kernelRelease: "6.1.0" }),
  };
}

await withNetworkNamespace("costs", [...nodeSetUp], async () => {
  const kernel = await openKernel({ log: silentLogger });
  const reconciler = new Reconciler(
    { kernel, clock: systemClock, log: silentLogger },
    {
      ownership: { foreignVirtualServers: "keep", excludeCidrs: [] },
      drain: { tcpDeadlineSeconds: 900, udpDeadlineSeconds: 0 },
    },
  );
  const wanted = goal();
  const { failures } = await reconciler.sync(wanted);
  const looks = [
    { name: "sets, by their sizes", seconds: 5, ms: await cost(20, () => reconciler.checkSets()) },
    { name: "rules", seconds: 10, ms: await cost(10, () => reconciler.checkRules()) },
    {
      name: "everything",
      seconds: 30,
      ms: await cost(10, async () => {
        if (!(await reconciler.confirm(wanted.nodeAddresses))) throw new Error("Not as left");
      }),
    },
  ];
  let share = 0;
  console.log(`${serviceCount} Services × ${endpointCount} endpoints, ${failures.length} failures`);
  for (const { name, seconds, ms } of looks) {
    share += ms / (seconds * 1000);
    console.log(
      `${name.padEnd(22)} ${ms.toFixed(1).padStart(7)} ms each ${String(seconds).padStart(2)} s ` +
        `${(ms / seconds / 10).toFixed(2)} %`,
    );
  }
  console.log(`in all ${(share * 100).toFixed(2)} % of one processor`);
  kernel.close();
});
