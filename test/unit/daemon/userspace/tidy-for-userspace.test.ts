import assert from "node:assert/strict";
import { it } from "node:test";
import { silentLogger } from "../../../../src/base/log.ts";
import { loadConfig } from "../../../../src/config/load-config.ts";
import { tidyForUserspace } from "../../../../src/daemon/userspace/tidy-for-userspace.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";

const flags: readonly (readonly [string, readonly string[]])[] = [
  ["hostname-override", ["node-1"]],
  ["manifests", ["/folder"]],
  ["proxy-mode", ["userspace"]],
];
const { config } = loadConfig(new Map(flags), { readFile: () => "", hostname: () => "node-1" });
const parts = {
  ...{ clock: new FakeClock(), log: silentLogger, stop: new AbortController().signal },
  ranIpvs: false,
};

it("asks for a retry where rules of mode iptables could not be removed", async () => {
  let attempts = 0;
  const left = {
    backend: "legacy",
    found: new Map([["IPv4", ["nat KUBE-SVC-A"]]]),
    async remove() {
      attempts += 1;
      if (attempts === 1) throw new Error("Another app is currently holding the xtables lock");
      return { removedCount: 1, kept: [] };
    },
  };
  const openKernel = async (): Promise<never> =>
    Object.assign(new FakeKernel(), { iptablesMode: [left], close() {} }) as never;
  assert.equal(await tidyForUserspace({ openKernel }, config, parts), false);
  assert.equal(await tidyForUserspace({ openKernel }, config, parts), true);
  assert.equal(attempts, 2);
});

it("asks for a retry if sets of IPVS mode could not be read", async () => {
  const kernel = new FakeKernel();
  const isSetList = ({ action }: { readonly action: string }): boolean => action === "list-sets";
  const mend = kernel.operations.failWhere(isSetList, new Error("EBUSY"));
  const openKernel = async (): Promise<never> => Object.assign(kernel, { close() {} }) as never;
  const afterIpvs = { ...parts, ranIpvs: true };
  assert.equal(await tidyForUserspace({ openKernel }, config, afterIpvs), false);
  mend();
  assert.equal(await tidyForUserspace({ openKernel }, config, afterIpvs), true);
});

it("is not retried by a process without rights", async () => {
  const openKernel = async (): Promise<never> => {
    throw new Error("Cannot open a netlink socket: EPERM");
  };
  assert.equal(await tidyForUserspace({ openKernel }, config, parts), true);
});
