import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { IpFamily } from "../../../../src/base/ip.ts";
import type { Config } from "../../../../src/config/config.ts";
import {
  cleanUnusedBackend,
  countUnusedRules,
  printUnusedBackend,
  tidyUnusedBackend,
} from "../../../../src/daemon/node/unused-backend.ts";
import { planEmptyRules } from "../../../../src/plan/rules.ts";
import { FakeIptables } from "../../../support/fake-kernel/fake-iptables.ts";
import { Operations } from "../../../support/fake-kernel/operations.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { loadFile } from "../../config/loading.ts";

const families = ["IPv4", "IPv6"] as const;
const { config }: { readonly config: Config } = loadFile("mode: ipvs");
const { chains, jumps } = planEmptyRules("IPv4", config);
const ours = chains.length + jumps.length;

describe("rules of an earlier run in the backend that is not in use", () => {
  let unusedBackend: FakeIptables;

  beforeEach(async () => {
    unusedBackend = new FakeIptables(new Operations());
    for (const family of families) {
      const planned = planEmptyRules(family, config);
      await unusedBackend.apply(family, [
        ...planned.chains.map((chain) => ({ kind: "chain-write", chain }) as const),
        ...planned.jumps.map((jump) => ({ kind: "jump-insert", jump }) as const),
      ]);
    }
  });

  function chainsOf(family: IpFamily): readonly string[] {
    return unusedBackend.peek(family).flatMap(({ name }) => (name.startsWith("KUBE-") ? name : []));
  }

  it("are removed in both families, and counted", async () => {
    assert.equal(await countUnusedRules({ unusedBackend }, config), 2 * ours);
    const report = await cleanUnusedBackend({ unusedBackend }, config);
    assert.deepEqual(report, {
      ...{ backend: "legacy", removedCount: 2 * ours, kept: [], failures: [] },
    });
    assert.deepEqual(families.flatMap(chainsOf), []);
    assert.equal(await countUnusedRules({ unusedBackend }, config), 0);
  });

  it("of one family are removed where those of the other cannot be, which is named", async () => {
    const apply = unusedBackend.apply.bind(unusedBackend);
    Object.assign(unusedBackend, {
      apply: async (family: IpFamily, changes: Parameters<typeof apply>[1]) => {
        if (family === "IPv4") throw new Error("lock");
        await apply(family, changes);
      },
    });
    const log = new RecordingLogger();
    await tidyUnusedBackend({ unusedBackend }, config, log);
    assert.deepEqual(
      log.lines.map(({ level, keys }) => [level, keys["ipFamily"], keys["chainsAndJumps"]]),
      [
        ["warn", "IPv4", undefined],
        ["info", undefined, ours],
      ],
    );
    assert.deepEqual([chainsOf("IPv4").length, chainsOf("IPv6").length], [chains.length, 0]);
    const printed: string[] = [];
    const report = await cleanUnusedBackend({ unusedBackend }, config);
    assert.equal(
      printUnusedBackend(report, (line) => printed.push(line)),
      false,
    );
    assert.deepEqual(printed, ["Could not remove rules of IPv4 from legacy: lock"]);
  });

  it("stay where a rule that is not ours leads to them", async () => {
    const toOurs = { matches: [], target: { kind: "jump", chain: "KUBE-MARK-MASQ" } } as const;
    const jump = { table: "nat", from: "PREROUTING", rule: toOurs } as const;
    await unusedBackend.apply("IPv4", [{ kind: "jump-insert", jump }]);
    const report = await cleanUnusedBackend({ unusedBackend }, config);
    assert.deepEqual(report?.kept, ["IPv4 nat KUBE-MARK-MASQ"]);
    const printed: string[] = [];
    assert.equal(
      printUnusedBackend(report, (line) => printed.push(line)),
      true,
    );
    assert.deepEqual(printed, [
      `Removed ${String(report.removedCount).padStart(5)} iptables chains and jumps from legacy, which is not in use`,
      "Kept IPv4 nat KUBE-MARK-MASQ in legacy: a rule that is not ours still uses it",
    ]);
  });

  it("are not looked for where there is no other backend", async () => {
    assert.equal(await cleanUnusedBackend({}, config), undefined);
    assert.equal(await countUnusedRules({}, config), 0);
    assert.equal(printUnusedBackend(undefined, assert.fail), true);
  });
});
