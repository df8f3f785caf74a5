/** Runs six golden scenarios through the built program and an API server over HTTP. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { runExecutable } from "../golden/executable.ts";
import { differenceText } from "../golden/kernel-state.ts";
import { readScenario } from "../golden/scenario.ts";

const names = [
  "clusterip-udp-affinity",
  "dual-stack",
  "nodeport-cluster",
  "proxy-name-label",
  "step-basic-delete",
  "step-basic-endpoints",
] as const;

describe("golden states, through dist/kube-ipvs and HTTP", () => {
  for (const name of names) {
    it(name, async () => {
      const { steps, exitStatus, log } = await runExecutable(readScenario(name));
      const text = steps.flatMap((differences) => differences.map(differenceText)).join("\n");
      assert.equal(text, "", log);
      assert.equal(exitStatus, 0, log);
    });
  }
});
