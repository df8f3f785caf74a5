import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HostPort, IpAddress } from "../../../src/base/ip.ts";
import { Balancer } from "../../../src/userspace/balancer.ts";
import type { Backend } from "../../../src/userspace/service-listeners.ts";
import { cidr } from "../../support/records.ts";

const backends = (...names: readonly string[]): readonly Backend[] =>
  names.map((name) => ({ key: name as HostPort, address: "10.0.0.1" as IpAddress, port: 80 }));

function balancer(names: readonly string[], affinitySeconds = 0): Balancer {
  const made = new Balancer();
  made.update(backends(...names), affinitySeconds);
  return made;
}

const chosen = (of: Balancer, count: number, client = "c", nowMs = 0): readonly string[] =>
  Array.from({ length: count }, () => of.next(client, nowMs)?.key ?? "none");

describe("the balancer", () => {
  it("uses backends in turn", () => {
    assert.deepEqual(chosen(balancer(["a", "b", "c"]), 5), ["a", "b", "c", "a", "b"]);
    assert.deepEqual(chosen(balancer([]), 2), ["none", "none"]);
  });

  it("keeps its turn when backends are added or removed", () => {
    const made = balancer(["a", "b", "c"]);
    chosen(made, 2);
    made.update(backends("a", "aa", "b", "c"), 0);
    assert.deepEqual(chosen(made, 2), ["c", "a"], "after b comes c");
    made.update(backends("aa", "c"), 0);
    assert.deepEqual(chosen(made, 3), ["c", "aa", "c"], "a is gone, and c follows it");
    made.update([], 0);
    assert.deepEqual(chosen(made, 1), ["none"]);
    made.update(backends("x", "y"), 0);
    assert.deepEqual(chosen(made, 3).toSorted(), ["x", "x", "y"].toSorted());
  });

  it("distributes evenly over any number of changes", () => {
    const made = balancer(["a", "b"]);
    const counts = new Map<string, number>();
    for (let round = 0; round < 600; round += 1) {
      made.update(backends("a", "b", round % 2 === 0 ? "c" : "d"), 0);
      const key = made.next("c", 0)?.key ?? "none";
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    for (const name of ["a", "b"]) {
      const count = counts.get(name) ?? 0;
      assert.ok(count >= 150 && count <= 300, `${name}: ${count}`);
    }
  });
});

describe("session affinity", () => {
  it("keeps a client at its backend until it has been idle for the timeout", () => {
    const made = balancer(["a", "b", "c"], 10);
    assert.deepEqual(chosen(made, 2, "one", 0), ["a", "a"]);
    assert.deepEqual(chosen(made, 1, "two", 0), ["b"]);
    assert.deepEqual(chosen(made, 1, "one", 9_999), ["a"]);
    assert.deepEqual(chosen(made, 1, "one", 19_998), ["a"], "the timeout starts with the last use");
    assert.deepEqual(chosen(made, 1, "one", 29_998), ["c"]);
  });

  it("gives a client a new backend if its own no longer exists or is unreachable", () => {
    const made = balancer(["a", "b", "c"], 10);
    chosen(made, 1, "one");
    made.update(backends("b", "c"), 10);
    assert.deepEqual(chosen(made, 2, "one"), ["c", "c"]);
    assert.equal(made.next("one", 0, true)?.key, "b");
    assert.deepEqual(chosen(made, 1, "one"), ["b"]);
  });

  it("ends when the Service no longer requests it, and forgets clients after the timeout", () => {
    const made = balancer(["a", "b"], 10);
    for (const client of ["1", "2", "3"]) made.next(client, Number(client) * 1_000);
    made.forgetExpired(12_000);
    assert.equal(made.tieCount, 1);
    made.update(backends("a", "b"), 0);
    assert.equal(made.tieCount, 0);
  });

  it("remembers a limited number of clients", () => {
    const made = balancer(["a"], 10);
    for (let client = 0; client < 100_010; client += 1) made.next(String(client), 0);
    assert.equal(made.tieCount, 100_000);
  });
});

describe("a listener for load-balancer IPs", () => {
  it("serves only clients of the source ranges", () => {
    const made = new Balancer();
    made.update(backends("a"), 0, [cidr("198.51.100.0/24")]);
    assert.deepEqual(chosen(made, 1, "198.51.100.7"), ["a"]);
    assert.deepEqual(chosen(made, 1, "203.0.113.7"), ["none"]);
    assert.deepEqual(chosen(made, 1, ""), ["none"]);
  });
});
