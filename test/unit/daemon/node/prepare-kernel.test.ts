import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { errno } from "../../../../src/base/errno.ts";
import { loadConfig } from "../../../../src/config/load-config.ts";
import {
  prepareKernel,
  StartError,
  supportedFamilies,
} from "../../../../src/daemon/node/prepare-kernel.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";

describe("preparing the kernel", () => {
  let kernel: FakeKernel;
  let log: RecordingLogger;

  beforeEach(() => {
    kernel = new FakeKernel();
    log = new RecordingLogger();
  });

  it("loads ip_vs before any other request to the kernel", async () => {
    const { available } = kernel.modules;
    available.delete("ip_vs");
    const load = async (name: string): Promise<void> => {
      await Promise.resolve();
      available.add(name);
    };
    const wasLoaded: boolean[] = [];
    const probe = async (): Promise<{ isSupported: boolean }> => {
      wasLoaded.push(available.has("ip_vs"));
      return { isSupported: true };
    };
    Object.assign(kernel.modules, { load });
    Object.assign(kernel.iptables, { probe });
    const { config } = loadConfig(new Map(), { readFile: () => "", hostname: () => "node-1" });
    await prepareKernel(kernel, config, log);
    assert.equal(wasLoaded[0], true);
  });

  it("neither uses iptables nor writes anything if the kernel lacks IPVS", async () => {
    const probes: unknown[] = [];
    Object.assign(kernel.iptables, { probe: (family: unknown) => probes.push(family) });
    kernel.operations.failWhere(({ facility }) => facility === "ipvs", errno.ENOENT);
    const { config } = loadConfig(new Map(), { readFile: () => "", hostname: () => "node-1" });
    await assert.rejects(prepareKernel(kernel, config, log), /ENOENT/);
    assert.deepEqual([probes, kernel.operations.texts()], [[], []]);
  });

  it("continues if the kernel cannot keep conntrack active, and logs this", async () => {
    const { config } = loadConfig(new Map(), { readFile: () => "", hostname: () => "node-1" });
    const keepConntrack = async (): Promise<void> => {
      throw new Error("EOPNOTSUPP");
    };
    assert.deepEqual(await prepareKernel(Object.assign(kernel, { keepConntrack }), config, log), [
      "IPv4",
      "IPv6",
    ]);
    assert.match(log.lines.at(-1)?.event ?? "", /^Open connections break if /);
  });

  it("continues with IPv4 if IPv6 is disabled, and logs this", async () => {
    kernel.sysctl.values.set("net/ipv6/conf/all/disable_ipv6", "1");
    assert.deepEqual(await supportedFamilies(kernel, log), ["IPv4"]);
    assert.deepEqual(
      log.lines.map(({ keys }) => keys["ipFamily"]),
      ["IPv6"],
    );
  });

  it("fails if neither family's programs work", async () => {
    for (const family of ["IPv4", "IPv6"] as const) kernel.iptables.unsupported.set(family, "no");
    await assert.rejects(supportedFamilies(kernel, log), (error) => {
      return error instanceof StartError && /neither iptables nor ip6tables/.test(error.message);
    });
  });

  it("does not suggest nf_tables if nf_tables itself does not work", async () => {
    for (const family of ["IPv4", "IPv6"] as const) kernel.iptables.unsupported.set(family, "no");
    const iptables = Object.assign(kernel.iptables, { backend: "nftables" });
    await assert.rejects(supportedFamilies(Object.assign(kernel, { iptables }), log), {
      message:
        /^Cannot start: nf_tables does not work on this node \(no\); load its kernel modules/,
    });
  });
});
