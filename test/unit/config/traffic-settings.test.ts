import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { load } from "./loading.ts";

describe("traffic settings", () => {
  it("list only values that need to be set", () => {
    const { config } = load({
      "kube-ipvs-traffic-metrics": "endpoint",
      "kube-ipvs-traffic-metrics-limit": "50",
      "kube-ipvs-run-estimation": "on",
      "kube-ipvs-estimator-cpus": "0-3,8",
      "kube-ipvs-estimator-nice": "-20",
    });
    assert.deepEqual(config.trafficMetrics, { hasEndpoints: true, limit: 50 });
    assert.deepEqual(config.estimator, { isRunning: true, cpuList: "0-3,8", nice: -20 });
  });

  it("reject an invalid list of processors, and an invalid priority", () => {
    for (const list of ["a", "0-", "0,,1", "0 1", "1\n2"]) {
      assert.throws(() => load({ "kube-ipvs-estimator-cpus": list }), /processors such as 0-3,8/);
    }
    for (const nice of ["20", "-21", "x", "1.5"]) {
      assert.throws(() => load({ "kube-ipvs-estimator-nice": nice }), /from -20 to 19/);
    }
  });
});
