import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { load } from "./loading.ts";

describe("traffic settings", () => {
  it("reject an invalid list of processors, and an invalid priority", () => {
    for (const list of ["a", "0-", "0,,1", "0 1", "1\n2"]) {
      assert.throws(() => load({ "kube-ipvs-estimator-cpus": list }), /processors such as 0-3,8/);
    }
    for (const nice of ["20", "-21", "x", "1.5"]) {
      assert.throws(() => load({ "kube-ipvs-estimator-nice": nice }), /from -20 to 19/);
    }
  });
});
