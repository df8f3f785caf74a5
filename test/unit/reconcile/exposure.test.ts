/**
 * Injects every single fault into every change that concerns source ranges. After each request, traces packets through
 * the fake kernel's rules, sets, addresses and virtual servers. By default, only every fifth run is executed. `make
 * faults` executes all runs, and all pairs of permanently rejected changes.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Packet } from "../../../src/explain/packet/packet.ts";
import { fatesOf } from "../../support/exposure/judge.ts";
import { iptablesMode, ipvsMode, type Mode } from "../../support/exposure/programs.ts";
import { playWithFaults, playWithPairs } from "../../support/exposure/run.ts";
import { type Scenario, scenariosOf } from "../../support/exposure/scenarios.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { cidr, ip, serviceRecord } from "../../support/records.ts";

const balancerIp = ip("203.0.113.10");
const restricted = serviceRecord({
  ...{ name: "default/web", type: "LoadBalancer", clusterIps: [ip("10.96.0.10")] },
  ...{ loadBalancerIps: [balancerIp], sourceRanges: [cidr("198.51.100.0/24")] },
});
const isWhole = process.env["TEST_EXPOSURE"] === "whole";
const share = isWhole ? 1 : 5;

describe("clients outside the source ranges stay excluded, whichever request fails", () => {
  for (const mode of [ipvsMode, iptablesMode]) {
    it(`${mode.name}: the judge distinguishes admitted from excluded clients`, async () => {
      const kernel = new FakeKernel();
      const program = mode.start(kernel, new FakeClock());
      program.put(restricted);
      await program.sync();
      const packets = [ip("198.51.100.7"), ip("192.0.2.7")].map(
        (source): Packet => ({
          ...{ family: "IPv4", protocol: "TCP", source, destination: balancerIp, port: 80 },
          ...{ isFromNode: false, inLink: "eth0", isBridged: false },
        }),
      );
      assert.deepEqual(fatesOf(kernel, packets), ["endpoint", "stopped"]);
    });

    for (const scenario of scenariosOf(mode)) {
      it(`${mode.name}: ${scenario.name}`, () => playAll(mode, scenario));
    }
  }

  if (isWhole) {
    for (const mode of [ipvsMode, iptablesMode]) {
      for (const scenario of scenariosOf(mode)) {
        if (scenario.before === undefined || scenario.isCleanUp) continue;
        it(`${mode.name}: ${scenario.name}: two permanently rejected changes`, async () => {
          for await (const { name, run } of playWithPairs(scenario, mode)) {
            assert.deepEqual(run.exposures, [], name);
          }
        });
      }
    }
  }
});

async function playAll(mode: Mode, scenario: Scenario): Promise<void> {
  let expectedState: string | undefined;
  for await (const { name, run } of playWithFaults(scenario, share, mode)) {
    assert.deepEqual(run.exposures, [], name);
    expectedState ??= run.state;
    assert.equal(
      run.state,
      expectedState,
      `${name}: ends in the same state as the run without a fault`,
    );
  }
}
