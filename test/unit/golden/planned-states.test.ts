/**
 * Runs every recorded scenario through the real configuration parser, decoders, planner and reconciler on the fake
 * kernel. The lab does the same with a real kernel, but this test finds a wrong plan within a second.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseIpAddress } from "../../../src/base/ip.ts";
import { silentLogger } from "../../../src/base/log.ts";
import { loadConfig } from "../../../src/config/load-config.ts";
import { ProxyHealth } from "../../../src/daemon/report/proxy-health.ts";
import { startDaemon } from "../../../src/daemon/start.ts";
import { configurationText } from "../../golden/configuration.ts";
import { compareStates, type KernelState } from "../../golden/kernel-state.ts";
import { listScenarios, readScenario, type Scenario } from "../../golden/scenario.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { nodeAddress, standardNodeAddresses } from "../../support/fake-kernel/fake-link.ts";
import {
  addressesText,
  ipSetText,
  iptablesText,
  ipvsText,
} from "../../support/fake-kernel/state-text.ts";
import { MemorySource } from "../../support/memory-source.ts";
import { silentMetrics } from "../../support/silent-metrics.ts";

/** Files that the fake kernel cannot produce. */
const unmodelled = ["link", "sysctl", "health"] as const;

/** Scenarios that begin with third-party kernel state. Only a real kernel can run their shell lines. */
const needsRealKernel = new Set(["cfg-exclude-cidrs", "pre-dirty-kernel"]);

function observed(kernel: FakeKernel): KernelState {
  return {
    ipvs: ipvsText(kernel),
    ipset: ipSetText(kernel),
    iptables: iptablesText(kernel, "IPv4"),
    ip6tables: iptablesText(kernel, "IPv6"),
    addresses: addressesText(kernel),
  };
}

async function replay(scenario: Scenario): Promise<readonly string[]> {
  const kernel = new FakeKernel();
  const source = new MemorySource();
  const clock = new FakeClock();
  const { config } = loadConfig(new Map([["config", ["scenario.yaml"]]]), {
    hostname: () => "ignored",
    readFile: () => configurationText({ ...scenario.config, kubeIpvs: { profile: "kube-proxy" } }),
  });
  const [first] = scenario.steps;
  source.apply(...(first?.apply ?? []));
  const daemon = await startDaemon({
    config,
    kernel,
    source,
    clock,
    metrics: silentMetrics,
    health: new ProxyHealth(clock, 60_000),
    log: silentLogger,
  });
  const differences: string[] = [];
  for (const [number, step] of scenario.steps.entries()) {
    for (const line of step.run) runAddressLine(kernel, line);
    source.delete(...step.delete);
    source.apply(...step.apply);
    await clock.advance(5_000);
    await daemon.settled();
    const recorded: Record<string, string> = { ...step.recorded };
    for (const file of unmodelled) delete recorded[file];
    for (const { file, side, line } of compareStates(recorded, observed(kernel))) {
      differences.push(`step ${number} ${file} ${side}: ${line}`);
    }
  }
  await daemon.stop();
  return differences;
}

/** `ip addr add 172.16.6.11/24 dev eth1`, and the same with `del`. */
function runAddressLine(kernel: FakeKernel, line: string): void {
  const match = /^ip addr (add|del) ([^/]+)\/(\d+) dev eth1$/.exec(line);
  assert.ok(match, `A line that the fake kernel cannot execute: ${line}`);
  const [, verb, text = "", length] = match;
  const address = parseIpAddress(text);
  addressesNow = addressesNow.filter((other) => other.address !== address);
  if (verb === "add") addressesNow = [...addressesNow, nodeAddress(text, Number(length), 3)];
  kernel.link.setNodeAddresses(addressesNow);
}

let addressesNow = standardNodeAddresses;

describe("the recorded state of", () => {
  for (const name of listScenarios().filter((scenario) => !needsRealKernel.has(scenario))) {
    it(name, async () => {
      addressesNow = standardNodeAddresses;
      assert.deepEqual(await replay(readScenario(name)), []);
    });
  }
});
