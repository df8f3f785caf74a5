/**
 * Starts the current build on the kernel state of older kube-ipvs builds and of kube-proxy 1.36.2, which the operator's
 * tools restore. The daemon's own counter shows its changes, and a second comparison shows that nothing else changed.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { compareStates, differenceText, type KernelState } from "../golden/kernel-state.ts";
import { nodeSetUp } from "../golden/node-set-up.ts";
import { observeKernel } from "../golden/observe.ts";
import { replayLines } from "../golden/replay.ts";
import { readScenario } from "../golden/scenario.ts";
import { cleanUpLab, eventually, type Flags, withLabDaemon } from "../support/lab-daemon.ts";
import { withNetworkNamespace } from "../support/netns/network-namespace.ts";
import type { ApiObject } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { labRules, movedChange, rulesOfIptables } from "../support/rules-writer.ts";
import { objects } from "../upgrade/objects.ts";

const othersFolder = join(import.meta.dirname, "../upgrade/other-proxies");
const statesFolder = join(import.meta.dirname, "../upgrade/states");

interface Found {
  readonly objects: readonly ApiObject[];
  readonly state: KernelState;
  readonly flags?: Flags;
}

interface Adoption {
  /** Lines of `kube_ipvs_kernel_changes_total`, without the metric's name. */
  readonly changes: readonly string[];
  readonly errors: readonly string[];
  /** Differences between the initial and the final state. */
  readonly differences: readonly string[];
}

function adopt(found: Found): Promise<Adoption> {
  const { health: _, ...state } = found.state;
  const setUp = [...nodeSetUp, ...replayLines(state)];
  return withNetworkNamespace("upgrade", setUp, () =>
    withLabDaemon(found.objects, found.flags ?? {}, async (daemon) => {
      const counted = await daemon.metrics("kube_ipvs_kernel_changes_total");
      const changes = counted.map((line) => line.replace("kube_ipvs_kernel_changes_total", ""));
      if (labRules !== undefined) await eventually(rulesOfIptables, "", patienceMs);
      return {
        changes: changes.filter((line) => !movedChange.test(line)),
        errors: daemon.errors,
        differences: compareStates(state, await observeKernel([])).map(differenceText),
      };
    }),
  );
}

const nothing: Adoption = { changes: [], errors: [], differences: [] };

describe("the state of an older build", () => {
  for (const name of readdirSync(statesFolder)) {
    it(`is adopted without a change: ${name}`, async () => {
      const state = JSON.parse(readFileSync(join(statesFolder, name), "utf8")) as KernelState;
      assert.deepEqual(await adopt({ objects, state }), nothing);
    });
  }
});

/** Takeovers in addition to those of `foreign-state.test.ts`. */
const takeOvers: readonly { readonly scenario: string; readonly flags?: Flags }[] = [
  { scenario: "cfg-scheduler-mh", flags: { "ipvs-scheduler": "mh" } },
  { scenario: "cfg-masquerade-bit", flags: { "iptables-masquerade-bit": "18" } },
  { scenario: "dual-stack" },
  { scenario: "ipv6-mixed-external" },
  { scenario: "lb-source-range-host" },
  { scenario: "nodeport-local-sctp" },
  { scenario: "sctp-clusterip" },
  { scenario: "proxy-name-label" },
  { scenario: "two-ports" },
];

function recordedBy(name: string): Omit<Found, "flags"> {
  const [step] = readScenario(name).steps;
  const given = (step?.apply ?? []) as readonly unknown[] as readonly ApiObject[];
  return { objects: given, state: step?.recorded ?? {} };
}

describe("the state of kube-proxy 1.36.2", () => {
  for (const { scenario, flags = {} } of takeOvers) {
    it(`is adopted without a change: ${scenario}`, async () => {
      assert.deepEqual(await adopt({ ...recordedBy(scenario), flags }), nothing);
    });
  }

  it("would be counted if it were changed", async () => {
    const { changes, differences } = await adopt({
      ...recordedBy("two-ports"),
      flags: { "ipvs-scheduler": "lc" },
    });
    assert.match(changes.join("\n"), /virtual-server/);
    assert.notDeepEqual(differences, []);
  });
});

/** kube-proxy 1.20.2 has its own chain in nat, which refers to sets, and also serves node ports on loopback. */
describe("the state of kube-proxy 1.20.2", () => {
  it("is taken over without an error, and a clean-up removes it completely", async () => {
    const file = join(othersFolder, "kube-proxy-1.20.2-ipvs.json");
    const state = JSON.parse(readFileSync(file, "utf8")) as KernelState;
    assert.match(state.ipvs ?? "", /127\.0\.0\.1:30443/);
    const setUp = [...nodeSetUp, ...replayLines(state)];
    await withNetworkNamespace("upgrade", setUp, async () => {
      await withLabDaemon(objects, {}, async ({ errors }) => {
        assert.deepEqual(errors, []);
        assert.doesNotMatch((await observeKernel([])).ipvs ?? "", /127\.0\.0\.1/);
      });
      const kept = (await cleanUpLab()).filter((line) => !/^Removed:|^ {2}/.test(line));
      const { ipvs, ipset, iptables, addresses } = await observeKernel([]);
      const empty = { kept: [], ipvs: "", ipset: "", addresses: "" };
      assert.deepEqual({ kept, ipvs, ipset, addresses }, empty);
      // KUBE-MARK-DROP is kubelet's.
      assert.deepEqual(iptables?.match(/KUBE-(?!MARK-DROP)\S+/g) ?? [], []);
    });
  });
});
