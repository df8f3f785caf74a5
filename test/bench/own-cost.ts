/**
 * Measures the CPU time that kube-ipvs itself needs for one changed endpoint in IPVS mode and in iptables mode, on a
 * fake kernel. `node test/bench/own-cost.ts [--changes 200] [--services 1000,5000] [before=TREE after=TREE]`.
 * Alternates between source trees.
 */
import { spawnSync } from "node:child_process";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { NamedObject } from "../support/memory-source.ts";
import type { ApiObject } from "../support/objects.ts";

const endpoints = 5;
const modes = ["ipvs", "iptables"] as const;
/** Number of runs. The lowest median is shown, because other work on the machine only adds time. */
const rounds = 3;

interface Size {
  readonly mode: string;
  readonly services: number;
  readonly changes: number;
}

/** Median CPU time of one change in milliseconds. Imports everything from the source tree. */
async function measure(tree: string, { mode, services, changes }: Size): Promise<number> {
  const load = <Module>(path: string): Promise<Module> => import(join(tree, path));
  const { systemClock } = await load<typeof import("../../src/base/clock.ts")>("src/base/clock.ts");
  const { silentLogger } = await load<typeof import("../../src/base/log.ts")>("src/base/log.ts");
  const { loadConfig } = await load<typeof import("../../src/config/load-config.ts")>(
    "src/config/load-config.ts",
  );
  const { ProxyHealth } = await load<typeof import("../../src/daemon/report/proxy-health.ts")>(
    "src/daemon/report/proxy-health.ts",
  );
  const { startDaemon } =
    await load<typeof import("../../src/daemon/start.ts")>("src/daemon/start.ts");
  const { FakeKernel } = await load<typeof import("../support/fake-kernel/fake-kernel.ts")>(
    "test/support/fake-kernel/fake-kernel.ts",
  );
  const { renderRestoreInput } = await load<
    typeof import("../../src/kernel/iptables/restore-input.ts")
  >("src/kernel/iptables/restore-input.ts");
  const { positions, serviceOf, sliceOf } = await load<
    typeof import("../support/many-services.ts")
  >("test/support/many-services.ts");
  const { MemorySource } = await load<typeof import("../support/memory-source.ts")>(
    "test/support/memory-source.ts",
  );
  const { node } = await load<typeof import("../support/objects.ts")>("test/support/objects.ts");
  const { silentMetrics } = await load<typeof import("../support/silent-metrics.ts")>(
    "test/support/silent-metrics.ts",
  );
  const source = new MemorySource();
  const apply = (...objects: readonly ApiObject[]): void =>
    source.apply(...(objects as readonly unknown[] as readonly NamedObject[]));
  apply(node());
  for (const index of positions(services))
    apply(serviceOf(index), sliceOf(index, positions(endpoints)));
  const kernel = new FakeKernel();
  const flags = {
    "proxy-mode": mode,
    "hostname-override": "node-1",
    manifests: "/memory",
    "ipvs-min-sync-period": "0s",
    "iptables-min-sync-period": "0s",
  };
  const values = Object.entries(flags).map(([name, value]) => [name, [value]] as const);
  const { config } = loadConfig(new Map(values), { readFile: () => "", hostname: () => "node-1" });
  const daemon = await startDaemon({
    ...{ config, kernel, source, metrics: silentMetrics, clock: systemClock },
    ...{ health: new ProxyHealth(systemClock, 60_000), log: silentLogger },
  });
  await daemon.settled();
  // The work of the fake iptables grows with the total number of rules, so its code is replaced after the first sync.
  kernel.iptables.hasGenerations = false;
  kernel.iptables.apply = async (family, written) => {
    renderRestoreInput(family, written);
  };
  const timesMs: number[] = [];
  for (let turn = 0; turn < changes; turn++) {
    const before = process.threadCpuUsage();
    apply(sliceOf(Math.floor(turn / 2), positions(endpoints + (turn % 2 === 0 ? 1 : 0))));
    await daemon.settled();
    const { user, system } = process.threadCpuUsage(before);
    timesMs.push((user + system) / 1_000);
  }
  await daemon.stop();
  return timesMs.sort((one, other) => one - other)[changes >> 1] ?? Number.NaN;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    changes: { type: "string", default: "200" },
    services: { type: "string", default: "1000,5000" },
    of: { type: "string" },
  },
});
if (values.of !== undefined) {
  console.log(await measure(values.of, JSON.parse(positionals[0] ?? "") as Size));
  process.exit();
}
const trees = (positionals.length === 0 ? ["this=."] : positionals).map((text) => {
  const [label = "", folder = ""] = text.split("=");
  return { label, folder: resolve(folder) };
});
for (const mode of modes) {
  for (const services of values.services.split(",").map(Number)) {
    const size: Size = { mode, services, changes: Number(values.changes) };
    const runs = Array.from({ length: rounds }, () =>
      trees.map(({ folder }) => {
        const argv = [import.meta.filename, "--of", folder, JSON.stringify(size)];
        return Number(spawnSync(process.execPath, argv, { encoding: "utf8" }).stdout);
      }),
    );
    const texts = trees.map(({ label }, at) => {
      const least = Math.min(...runs.map((run) => run[at] ?? Number.NaN));
      return `${label} ${least.toFixed(2)} ms`;
    });
    console.log(`${mode}, ${services} Services with ${endpoints} endpoints: ${texts.join(", ")}`);
  }
}
