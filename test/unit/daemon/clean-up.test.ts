import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import type { Plan } from "../../../src/answer/plan.ts";
import { countChanges, planView } from "../../../src/answer/plan.ts";
import { errno } from "../../../src/base/errno.ts";
import { ipFamilies } from "../../../src/base/ip.ts";
import { silentLogger } from "../../../src/base/log.ts";
import type { Config } from "../../../src/config/config.ts";
import { cleanUpAndPrint, planCleanUp } from "../../../src/daemon/clean-up.ts";
import type { OtherProxy } from "../../../src/daemon/node/other-proxy.ts";
import type { Kernel, RuleChange } from "../../../src/kernel/kernel.ts";
import { DesiredState } from "../../../src/plan/desired-state.ts";
import { planRules } from "../../../src/plan/rules.ts";
import { setsFor } from "../../../src/plan/sets.ts";
import { Reconciler } from "../../../src/reconcile/reconciler.ts";
import { portalRules } from "../../../src/userspace/portal-rules.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { FakeIptables } from "../../support/fake-kernel/fake-iptables.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { type Operation, Operations } from "../../support/fake-kernel/operations.ts";
import {
  addressesText,
  ipSetText,
  iptablesText,
  ipvsText,
} from "../../support/fake-kernel/state-text.ts";
import { iptablesModeRules, putRules } from "../../support/iptables-mode.ts";
import { planService } from "../../support/plan-at-once.ts";
import {
  ip,
  localEndpoint,
  planOptions,
  serviceRecord,
  sliceRecord,
} from "../../support/records.ts";

type Cleaning = Pick<
  Config,
  | "foreignVirtualServers"
  | "excludeCIDRs"
  | "masqueradeAll"
  | "masqueradeMark"
  | "stateFile"
  | "claimsFile"
  | "operatorSocket"
>;

const config: Cleaning = {
  foreignVirtualServers: "keep",
  excludeCIDRs: [],
  masqueradeAll: false,
  masqueradeMark: 0x4000,
  stateFile: "",
  claimsFile: "",
  operatorSocket: "",
};

async function clean(
  kernel: FakeKernel,
  stateFile = "",
  claimsFile = "",
): Promise<{ readonly worked: boolean; readonly lines: readonly string[] }> {
  const lines: string[] = [];
  const settings = { ...config, stateFile, claimsFile } as Config;
  const worked = await cleanUpAndPrint(kernel, settings, (line) => lines.push(line));
  return { worked, lines };
}

/** Returns a kernel that contains one dual-stack Service. */
async function programmed(prepare = (_: FakeKernel): void => {}): Promise<FakeKernel> {
  const kernel = new FakeKernel();
  prepare(kernel);
  const desired = new DesiredState();
  const service = serviceRecord({ clusterIps: [ip("10.96.0.10"), ip("fd00:96::10")] });
  const slice = sliceRecord([localEndpoint("10.244.1.10")]);
  for (const { family, servicePorts } of planService(
    service.name,
    service,
    [slice],
    planOptions(),
  )) {
    desired.replace(service.name, family, servicePorts);
  }
  const reconciler = new Reconciler({ kernel, clock: new FakeClock(), log: silentLogger });
  const rules = ipFamilies.map((family) => {
    const filledSets = desired.filledSets(family);
    const input = { family, filledSets, deniedToNode: [], localDetector: undefined };
    return [family, planRules({ ...input, ...config })] as const;
  });
  const nodeAddresses = new Set([ip("192.168.10.11")]);
  await reconciler.sync({
    desired,
    touched: desired.takeDirty(),
    rules: new Map(rules),
    sysctls: [],
    missingModules: [],
    nodeAddresses,
    ownership: config,
    drain: { tcpDeadlineSeconds: 900, udpDeadlineSeconds: 0 },
    manualWeights: "keep",
  });
  return kernel;
}

describe("cleanUp", () => {
  it("removes everything for both families and prints it", async () => {
    const kernel = await programmed();
    const { worked, lines } = await clean(kernel);
    assert.equal(worked, true);
    assert.equal(
      ipvsText(kernel).trim() + ipSetText(kernel).trim() + addressesText(kernel).trim(),
      "",
    );
    for (const family of ipFamilies) assert.doesNotMatch(iptablesText(kernel, family), /KUBE/);
    assert.deepEqual(lines, [
      "Removed:",
      "  Link: 1",
      "  Virtual servers: 2",
      "  iptables chains and jumps: 40",
      "  Sets: 34",
    ]);
  });

  it("names what nf_tables and the unused programs contained", async () => {
    const kernel = await programmed();
    const iptables = Object.assign(kernel.iptables, { backend: "nftables" });
    const { ipSets } = new FakeKernel();
    for (const set of setsFor("IPv4")) await ipSets.create(set);
    const legacy = new FakeIptables(new Operations());
    putRules(legacy, iptablesModeRules);
    const unused = { unusedBackends: async () => [legacy], otherSets: ipSets };
    const { worked, lines } = await clean(Object.assign(kernel, { iptables, ...unused }));
    assert.equal(worked, true);
    assert.deepEqual(lines, [
      "Removed:",
      "  Link: 1",
      "  Virtual servers: 2",
      "  nf_tables chains and jumps: 40",
      "  Sets: 34",
      "  In legacy and ipset, which are not in use:",
      "  iptables chains and jumps: 29",
      "  Sets: 17",
    ]);
  });

  it("counts only what the kernel removed", async () => {
    const kernel = await programmed();
    const isOne = ({ action, subject }: Operation): boolean =>
      action === "virtual-server-remove" && subject.includes("10.96.0.10");
    kernel.operations.failWhere(isOne, errno.EBUSY);
    const { lines } = await clean(kernel);
    assert.ok(lines.includes("  Virtual servers: 1"), lines.join("\n"));
  });

  it("succeeds and says so if there is nothing to remove", async () => {
    const kernel = new FakeKernel();
    assert.deepEqual(await clean(kernel), {
      worked: true,
      lines: ["Found nothing left by kube-ipvs"],
    });
    assert.deepEqual(kernel.operations.texts(), []);
  });

  it("removes and counts the rules of userspace mode", async () => {
    const kernel = new FakeKernel();
    const { chains, jumps } = portalRules("IPv4", []);
    await kernel.iptables.apply("IPv4", [
      ...chains.map((chain): RuleChange => ({ kind: "chain-write", chain })),
      ...jumps.map((jump): RuleChange => ({ kind: "jump-insert", jump })),
    ]);
    assert.deepEqual(await clean(kernel), {
      worked: true,
      lines: ["Removed:", "  iptables chains and jumps: 10"],
    });
    assert.doesNotMatch(iptablesText(kernel, "IPv4"), /KUBE/);
  });

  it("names objects that it could not remove, and fails", async () => {
    const kernel = await programmed();
    kernel.operations.failWhere(({ action }) => action === "virtual-server-remove", errno.EPERM);
    const { worked, lines } = await clean(kernel);
    assert.equal(worked, false);
    assert.ok(
      lines.some((line) => line.startsWith("Could not remove TCP 10.96.0.10:80 and 1 more: ")),
      lines.join("\n"),
    );
    assert.match(ipSetText(kernel), /KUBE-CLUSTER-IP 10\.96\.0\.10,tcp:80/);
  });

  it("removes everything except a link of a different kind, and fails", async () => {
    const kernel = await programmed();
    kernel.link.kind = "bridge";
    const { worked, lines } = await clean(kernel);
    assert.equal(worked, false);
    assert.equal(ipvsText(kernel).trim() + ipSetText(kernel).trim(), "");
    for (const family of ipFamilies) assert.doesNotMatch(iptablesText(kernel, family), /KUBE/);
    assert.deepEqual(
      lines.filter((line) => !/^Removed:|^ {2}/.test(line)),
      ["Could not remove link: Cannot use link kube-ipvs0: it is bridge, not a dummy link"],
    );
  });

  for (const rules of ["iptables", "nftables"] as const) {
    it(`keeps the sets of ${rules} while a virtual server of kube-ipvs exists, because they identify it`, async () => {
      const kernel = await programmed((empty) => empty.useRules(rules));
      const isOne = ({ action, subject }: Operation): boolean =>
        action === "virtual-server-remove" && subject.includes("10.96.0.10");
      const heal = kernel.operations.failWhere(isOne, errno.EBUSY);
      assert.equal((await clean(kernel)).worked, false);
      assert.match(ipSetText(kernel), /add KUBE-CLUSTER-IP 10\.96\.0\.10,tcp:80/);
      heal();
      assert.equal((await clean(kernel)).worked, true);
      assert.equal(ipvsText(kernel).trim() + ipSetText(kernel).trim(), "");
    });
  }

  it("keeps the sets and rules if the virtual servers cannot be read", async () => {
    const kernel = await programmed();
    const isRead = ({ action }: Operation): boolean => action === "list-virtual-servers";
    kernel.operations.failWhere(isRead, errno.ENOBUFS, 1);
    assert.equal((await clean(kernel)).worked, false);
    assert.match(ipSetText(kernel), /add KUBE-CLUSTER-IP 10\.96\.0\.10,tcp:80/);
    assert.equal((await clean(kernel)).worked, true);
    assert.equal(ipvsText(kernel).trim() + ipSetText(kernel).trim(), "");
  });

  it("keeps the rules while a link that they restrict exists", async () => {
    const remove = (): Promise<void> => Promise.reject(new Error("EBUSY"));
    const kernel = Object.assign(await programmed(), { tunnels: { remove } as never });
    assert.equal((await clean(kernel)).worked, false);
    assert.match(iptablesText(kernel, "IPv4"), /KUBE-IPVS-FILTER/);
  });

  it("keeps and names a third-party virtual server", async () => {
    const kernel = await programmed();
    await kernel.ipvs.apply([
      {
        kind: "virtual-server-create",
        after: {
          protocol: "TCP",
          address: ip("10.50.0.1"),
          port: 80,
          scheduler: "rr",
          persistenceTimeoutSeconds: 0,
          persistencePrefixLength: 32,
          flags: 0,
        },
      },
    ]);
    const { worked, lines } = await clean(kernel);
    assert.equal(worked, true);
    assert.match(ipvsText(kernel), /10\.50\.0\.1:80/);
    assert.ok(lines.some((line) => line.startsWith("Kept TCP 10.50.0.1:80: ")));
  });
});

describe("cleanUp and kube-proxy's iptables and nftables modes", () => {
  const proxies: readonly (readonly [OtherProxy | undefined, isKept: boolean])[] = [
    [undefined, false],
    [{ kind: "process", pid: 812, command: "kube-proxy" }, true],
    [{ kind: "port", url: "http://127.0.0.1:10249", mode: "nftables" }, true],
    [{ kind: "port", url: "http://127.0.0.1:10249", mode: "ipvs" }, false],
  ];
  for (const [proxy, isKept] of proxies) {
    const who = proxy === undefined ? "no kube-proxy" : JSON.stringify(proxy);
    it(`${isKept ? "keeps" : "removes"} their rules while ${who} is running`, async () => {
      const kernel = Object.assign(await programmed(), { nftTables: nftTables() });
      putRules(kernel.iptables, iptablesModeRules);
      const lines: string[] = [];
      const print = (line: string): void => void lines.push(line);
      assert.equal(await cleanUpAndPrint(kernel, config as Config, print, { proxy }), true);
      const left = /KUBE-(?:SVC|SEP|NODEPORTS)/.test(iptablesText(kernel, "IPv4"));
      assert.deepEqual([left, lines.includes("    - ip kube-proxy")], [isKept, !isKept]);
      assert.equal(
        lines.some((line) => /^Kept rules of kube-proxy's .*running/.test(line)),
        isKept,
      );
    });
  }

  it("names what it cannot remove, and removes the rest, in both backends", async () => {
    const unusedBackend = new FakeIptables(new Operations());
    unusedBackend.useSets(() => true);
    putRules(unusedBackend, iptablesModeRules);
    unusedBackend.table("IPv4", "nat").append("OTHERS", "-j KUBE-SVL-ZNLZPHNJPSNFOWJC");
    const kernel = Object.assign(await programmed(), {
      unusedBackends: async () => [unusedBackend],
    });
    const { worked, lines } = await clean(kernel);
    assert.equal(worked, true);
    assert.deepEqual(lines.slice(-3), [
      "  In legacy, which is not in use:",
      "  iptables chains and jumps: 28",
      "Kept IPv4 nat KUBE-SVL-ZNLZPHNJPSNFOWJC in legacy: a rule of other software still uses it",
    ]);
    unusedBackend.rejects = () => true;
    putRules(unusedBackend, iptablesModeRules);
    const again = await clean(kernel);
    assert.equal(again.worked, false);
    assert.match(again.lines.at(-1) ?? "", /^Could not remove IPv4 .* and \d+ more in legacy: /);
  });

  it("removes the rest if nftables tables cannot be looked up", async () => {
    const has = (): Promise<boolean> => Promise.reject(new Error("EPERM"));
    const kernel = Object.assign(await programmed(), { nftTables: { has, async remove() {} } });
    const { worked, lines } = await clean(kernel);
    assert.equal(worked, false);
    assert.match(lines.join("\n"), /^Could not remove nft table ip kube-proxy: EPERM$/m);
    assert.deepEqual(await kernel.ipvs.listVirtualServers(), []);
  });

  function nftTables(): NonNullable<Kernel["nftTables"]> {
    return { has: async (family) => family === "IPv4", async remove() {} };
  }
});

describe("the plan of a clean-up", () => {
  const planOf = (kernel: Kernel, claimsFile = ""): Promise<Plan> =>
    planCleanUp(kernel, { ...config, claimsFile } as Config, { clock: new FakeClock() });

  it("says that there is nothing to remove", async () => {
    const plan = await planOf(new FakeKernel());
    assert.deepEqual([...planView.blocks(plan, false)], ["No changes."]);
    assert.equal(countChanges(plan), 0);
  });

  it("lists removals in both backends and for every mode, and writes nothing", async () => {
    const unusedBackend = new FakeIptables(new Operations());
    putRules(unusedBackend, iptablesModeRules);
    const kernel = Object.assign(await programmed(), {
      unusedBackends: async () => [unusedBackend],
    });
    putRules(kernel.iptables, iptablesModeRules);
    kernel.operations.clear();
    // The path can be any existing file.
    const plan = await planOf(kernel, import.meta.filename);
    const count = countChanges(plan);
    const text = planView.blocks(plan, false).join("\n");
    assert.match(text, /^Link: 1\n {2}- kube-ipvs0 {2}# unwanted\n/);
    const chain = "- IPv4 nat KUBE-SVC-ZNLZPHNJPSNFOWJC  # unwanted";
    const [inUse = "", unused = ""] = text.split("In legacy, which is not in use:\n");
    assert.ok(inUse.includes(chain) && unused.includes(chain), text);
    const total = `${count} changes would be made, so plan exits with 2.`;
    assert.ok(text.endsWith(`\n\nFiles: 1\n  - ${import.meta.filename}\n\n${total}`), text);
    assert.ok(count > 80, total);
    assert.deepEqual(kernel.operations.texts(), []);
    assert.ok((plan.unusedBackend?.changes.length ?? 0) > 10);
  });

  it("names chains in the notation of the backend in use, and chains of other backends in that of iptables", async () => {
    const legacy = new FakeIptables(new Operations());
    putRules(legacy, iptablesModeRules);
    const kernel = await programmed();
    putRules(kernel.iptables, iptablesModeRules);
    const written = Object.assign(kernel, {
      iptables: Object.assign(kernel.iptables, { backend: "nftables" }),
      unusedBackends: async () => [legacy],
    });
    const text = planView.blocks(await planOf(written), false).join("\n");
    assert.deepEqual(text.match(/^\w+ chains and jumps(?=:)/gm), [
      "nf_tables chains and jumps",
      "iptables chains and jumps",
    ]);
  });
});

describe("cleanUp and the state file", () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "kube-ipvs-clean-up-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it("removes it and the temporary files of killed writers, and prints both", async () => {
    const path = join(folder, "state.json");
    writeFileSync(path, "{}");
    writeFileSync(`${path}.new`, "{");
    assert.deepEqual(await clean(new FakeKernel(), path), {
      worked: true,
      lines: ["Removed:", "  Files: 1", `    - ${path}`],
    });
    assert.deepEqual(readdirSync(folder), []);
    assert.deepEqual(await clean(new FakeKernel(), path), {
      worked: true,
      lines: ["Found nothing left by kube-ipvs"],
    });
  });

  it("removes the ages of claims, which are kept across boots", async () => {
    const path = join(folder, "claims.json");
    writeFileSync(path, "{}");
    const { lines } = await clean(new FakeKernel(), "", path);
    assert.deepEqual(lines, ["Removed:", "  Files: 1", `    - ${path}`]);
    assert.deepEqual(readdirSync(folder), []);
  });

  it("keeps it and the files of 0.2 while an object of kube-ipvs is left in the kernel", async () => {
    const path = join(folder, "state.json");
    const names = ["drains-modes.json", "drains-ownership.json", "drains.json", "state.json"];
    for (const name of names) writeFileSync(join(folder, name), "{}");
    const kernel = await programmed();
    const isRemoval = ({ action }: Operation): boolean => action === "virtual-server-remove";
    const heal = kernel.operations.failWhere(isRemoval, errno.EBUSY);
    assert.equal((await clean(kernel, path)).worked, false);
    assert.deepEqual(readdirSync(folder).sort(), names);
    heal();
    assert.equal((await clean(kernel, path)).worked, true);
    assert.deepEqual(readdirSync(folder), []);
  });

  it("fails and names the reason if it cannot be removed", async () => {
    const path = join(folder, "state.json");
    mkdirSync(path);
    const { worked, lines } = await clean(new FakeKernel(), path);
    assert.equal(worked, false);
    assert.match(lines.join("\n"), /^Could not remove .*state\.json: (EISDIR|EPERM)/m);
  });
});
