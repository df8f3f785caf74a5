/**
 * Runs every recorded scenario of iptables mode through the real configuration parser, decoders and planner. The
 * planned rules must equal kube-proxy's, rule by rule. Uses neither a kernel nor a daemon.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { NodeRecord } from "../../../src/api/objects.ts";
import { type IpAddress, ipFamilies, parseIpAddress } from "../../../src/base/ip.ts";
import { loadConfig } from "../../../src/config/load-config.ts";
import { iptablesOptionsOf } from "../../../src/daemon/node/iptables-facts.ts";
import { planOptionsOf } from "../../../src/daemon/node/node-facts.ts";
import { emptyNetwork } from "../../../src/daemon/node/node-network.ts";
import type { IptablesNodeOptions } from "../../../src/plan/iptables/options.ts";
import { TablesPlan } from "../../../src/plan/iptables/tables-plan.ts";
import { configurationText } from "../../golden/configuration.ts";
import type { Scenario } from "../../golden/scenario.ts";
import { plannedForm, recordedForm } from "../../golden-iptables/expected-form.ts";
import { listScenarios, readScenario } from "../../golden-iptables/recorded.ts";
import { MemorySource } from "../../support/memory-source.ts";

function addressesOf(scenario: Scenario, stepCount: number): ReadonlySet<IpAddress> {
  const addresses = new Set(["192.168.10.11", "fd00:10::11", "172.16.5.11"]);
  for (const line of scenario.steps.slice(0, stepCount).flatMap(({ run }) => run)) {
    const [, verb, address = ""] = /^ip addr (add|del) ([^/]+)\//.exec(line) ?? [];
    if (verb === "add") addresses.add(address);
    else addresses.delete(address);
  }
  return new Set([...addresses].map((text) => parseIpAddress(text) as IpAddress));
}

function optionsOf(
  scenario: Scenario,
  node: NodeRecord | undefined,
  stepCount: number,
): IptablesNodeOptions {
  const text = configurationText({ ...scenario.config, mode: "ipvs" });
  const { config } = loadConfig(new Map([["config", ["scenario.yaml"]]]), {
    hostname: () => "ignored",
    readFile: () => text,
  });
  const network = { ...emptyNetwork, ofNode: addressesOf(scenario, stepCount) };
  const shared = planOptionsOf({ config, families: ipFamilies, node, network });
  const facts = { config, node, shared, iptablesLocalhostNodePorts: true, hasCounters: true };
  return iptablesOptionsOf(facts);
}

async function differencesOf(scenario: Scenario): Promise<readonly string[]> {
  const plan = new TablesPlan({ startedAtMs: 0, onPlan: () => {} });
  const source = new MemorySource();
  let node: NodeRecord | undefined;
  await source.start({
    onService: (previous, current) => plan.tracker.noteService(previous, current),
    onEndpointSlice: (previous, current) => plan.tracker.noteSlice(previous, current),
    onNode: (_previous, current) => {
      node = current;
    },
    onSynced: () => {},
    onRefusal: () => {},
  });
  const differences: string[] = [];
  for (const [index, step] of scenario.steps.entries()) {
    source.delete(...step.delete);
    source.apply(...step.apply);
    for (const _ of plan.update(optionsOf(scenario, node, index + 1)));
    for (const family of ipFamilies) {
      const recorded = step.recorded[family === "IPv4" ? "iptables" : "ip6tables"] ?? "";
      const expected = recordedForm(recorded).split("\n");
      const planned = plannedForm(family, plan.ruleSet(family)).split("\n");
      differences.push(...lineDifferences(expected, planned, `step ${index} ${family}`));
    }
  }
  return differences;
}

function lineDifferences(
  expected: readonly string[],
  planned: readonly string[],
  where: string,
): readonly string[] {
  if (expected.join("\n") === planned.join("\n")) return [];
  const missing = expected.filter((line) => !planned.includes(line));
  const unexpected = planned.filter((line) => !expected.includes(line));
  if (missing.length + unexpected.length === 0) return [`${where}: another order`];
  return [
    ...missing.map((line) => `${where} missing ${line}`),
    ...unexpected.map((line) => `${where} unexpected ${line}`),
  ];
}

describe("iptables mode: the recorded tables of", () => {
  for (const name of listScenarios()) {
    it(name, async () => {
      assert.deepEqual(await differencesOf(readScenario(name)), []);
    });
  }
});
