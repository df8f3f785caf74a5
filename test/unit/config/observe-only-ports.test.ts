/** In observe-only mode, the default ports belong to the kube-proxy that is running at the same time. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { load, loadFile } from "./loading.ts";

const event = "Observing only, listening on ports that kube-proxy does not use";

function portsOf(flags: Readonly<Record<string, string>>): readonly unknown[] {
  const { config, notices } = load(flags);
  const said = notices.find((notice) => notice.event === event)?.keys;
  return [config.metricsBindAddress.port, config.healthzBindAddress?.port, said];
}

describe("the ports with observeOnly", () => {
  it("are not kube-proxy's, and the log names them", () => {
    assert.deepEqual(portsOf({ "kube-ipvs-observe-only": "true" }), [
      10_349,
      10_356,
      { metricsBindAddress: "127.0.0.1:10349", healthzBindAddress: "0.0.0.0:10356" },
    ]);
  });

  it("are kube-proxy's without observeOnly", () => {
    assert.deepEqual(portsOf({}), [10_249, 10_256, undefined]);
  });

  it("do not depend on the file and flags, which are kube-proxy's", () => {
    const file = "metricsBindAddress: 0.0.0.0:20249\nhealthzBindAddress: 127.0.0.1:10256\n";
    for (const flags of [{}, { "metrics-port": "10249", "healthz-port": "20256" }]) {
      const { config } = loadFile(file, { ...flags, "kube-ipvs-observe-only": "true" });
      assert.deepEqual(config.metricsBindAddress, { address: "0.0.0.0", port: 10_349 });
      assert.deepEqual(config.healthzBindAddress, { address: "127.0.0.1", port: 10_356 });
    }
  });
});
