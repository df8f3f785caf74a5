import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { prepareConntrack } from "../../../../src/daemon/node/prepare-conntrack.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { load } from "../../config/loading.ts";

const files = "net/netfilter/nf_conntrack_";

function nodeKernel(): FakeKernel {
  const kernel = new FakeKernel();
  kernel.sysctl.values.set(`${files}max`, "65536");
  kernel.sysctl.values.set(`${files}tcp_timeout_established`, "432000");
  kernel.sysctl.values.set(`${files}tcp_timeout_close_wait`, "60");
  kernel.modules.parameters.set("nf_conntrack/hashsize", "16384");
  return kernel;
}

const { config: defaults } = load({});

describe("prepareConntrack", () => {
  it("sets kube-proxy's defaults: limit, hash table, timeouts", async () => {
    const kernel = nodeKernel();
    const log = new RecordingLogger();
    await prepareConntrack(kernel, defaults, log, 2);
    assert.deepEqual(kernel.operations.texts(), [
      `sysctl write ${files}max=131072`,
      "module write nf_conntrack/hashsize=32768",
      `sysctl write ${files}tcp_timeout_established=86400`,
      `sysctl write ${files}tcp_timeout_close_wait=3600`,
    ]);
    assert.equal(log.lines.length, 4);
    const { event, keys } = log.lines[0] ?? {};
    const value = { entry: `${files}max`, value: 131_072, before: 65_536 };
    assert.deepEqual([event, keys], ["Set sysctl", value]);
  });

  it("writes nothing when it runs again, and never shrinks the hash table", async () => {
    const kernel = nodeKernel();
    await prepareConntrack(kernel, defaults, new RecordingLogger(), 2);
    kernel.modules.parameters.set("nf_conntrack/hashsize", "262144");
    const before = kernel.operations.texts().length;
    await prepareConntrack(kernel, defaults, new RecordingLogger(), 2);
    assert.equal(kernel.operations.texts().length, before);
  });

  it("changes nothing if all settings are zero", async () => {
    const kernel = nodeKernel();
    kernel.modules.available.clear();
    const { config } = load({
      "conntrack-max-per-core": "0",
      "conntrack-tcp-timeout-close-wait": "0s",
      "conntrack-tcp-timeout-established": "0s",
    });
    await prepareConntrack(kernel, config, new RecordingLogger(), 2);
    assert.deepEqual(kernel.operations.texts(), []);
  });

  it("sets timeouts even if the limit is not changed", async () => {
    const kernel = nodeKernel();
    const { config } = load({
      "conntrack-max-per-core": "0",
      "conntrack-tcp-timeout-close-wait": "0s",
      "conntrack-tcp-timeout-established": "1h",
    });
    await prepareConntrack(kernel, config, new RecordingLogger(), 2);
    const written = `sysctl write ${files}tcp_timeout_established=3600`;
    assert.deepEqual(kernel.operations.texts(), [written]);
  });

  it("loads the module before it sets values, and fails if a value cannot be set", async () => {
    const kernel = new FakeKernel();
    kernel.modules.available.delete("nf_conntrack");
    const log = new RecordingLogger();
    await assert.rejects(prepareConntrack(kernel, defaults, log, 2), /nf_conntrack_max/);
    assert.equal(log.lines[0]?.event, "Cannot load kernel module");
  });
});
