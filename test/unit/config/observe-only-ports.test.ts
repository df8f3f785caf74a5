/** A kube-proxy that runs beside has the usual ports. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { load } from "./loading.ts";

const event = "Observing only, kube-proxy's default ports are left alone";

function portsOf(flags: Readonly<Record<string, string>>): readonly unknown[] {
  const { config, notices } = load(flags);
  const said = notices.find((notice) => notice.event === event)?.keys;
  return [config.metricsBindAddress.port, config.healthzBindAddress?.port, said];
}

describe("the ports of a program that only observes", () => {
  it("are not kube-proxy's, and the log says which", () => {
    assert.deepEqual(portsOf({ "kube-ipvs-observe-only": "true" }), [
      10_349,
      10_356,
      { metricsBindAddress: "127.0.0.1:10349", healthzBindAddress: "0.0.0.0:10356" },
    ]);
  });

  it("are kube-proxy's where it changes the kernel", () => {
    assert.deepEqual(portsOf({}), [10_249, 10_256, undefined]);
  });

  it("are those that are set", () => {
    const [metrics] = portsOf({
      "kube-ipvs-observe-only": "true",
      "metrics-bind-address": "127.0.0.1:10249",
    });
    assert.equal(metrics, 10_249);
  });
});
