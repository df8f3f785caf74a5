/** Tests the time of the last clean verification, which an alert uses. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { runCommand } from "../../support/fake-kernel/operator-commands.ts";
import { FakeNode } from "../../support/fake-node.ts";
import type { NamedObject } from "../../support/memory-source.ts";
import { endpointSlice, node, service } from "../../support/objects.ts";

const objects = [
  node(),
  service(),
  endpointSlice({ endpoints: ["10.244.2.11"] }),
] as readonly unknown[] as readonly NamedObject[];
const periodMs = 2_000;
const damages: Readonly<Record<string, string>> = {
  ipvs: "ipvsadm -D -t 10.96.0.10:80",
  iptables: "iptables -t nat -F KUBE-SERVICES",
};

describe("the time of the last clean verification", () => {
  for (const [mode, damage] of Object.entries(damages)) {
    it(`advances only if a verification finds no difference in ${mode} mode`, async () => {
      const fake = new FakeNode({
        "proxy-mode": mode,
        "kube-ipvs-verification-period": `${periodMs}ms`,
        "kube-ipvs-rule-check-period": `${periodMs}ms`,
      });
      fake.source.apply(...objects);
      await fake.start();
      await fake.comeToRest();
      const cleanAt = (): number => fake.lastCleanVerificationSeconds;
      const wait = async (): Promise<void> => {
        await fake.wait(2 * periodMs);
        await fake.settle();
      };
      await wait();
      const first = cleanAt();
      await wait();
      assert.ok(cleanAt() > first && first > 0, `${first} ${cleanAt()}`);
      const last = cleanAt();
      for (let time = 0; time < 5; time += 1) {
        assert.ok(runCommand(fake.kernel, damage));
        await fake.wait(periodMs);
      }
      assert.equal(cleanAt(), last);
      await fake.settle();
      await wait();
      await wait();
      assert.ok(cleanAt() > last);
      await fake.stop();
    });
  }
});
