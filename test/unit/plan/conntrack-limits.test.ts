import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  type ConntrackOptions,
  countCpus,
  planConntrackLimits,
} from "../../../src/plan/conntrack-limits.ts";

const off: ConntrackOptions = {
  maxPerCore: 0,
  min: 0,
  tcpEstablishedTimeoutSeconds: 0,
  tcpCloseWaitTimeoutSeconds: 0,
  udpTimeoutSeconds: 0,
  udpStreamTimeoutSeconds: 0,
  tcpBeLiberal: false,
};

describe("planConntrackLimits", () => {
  const cases: readonly {
    readonly name: string;
    readonly maxPerCore: number;
    readonly min: number;
    readonly cpus: number;
    readonly entries: number | undefined;
  }[] = [
    {
      name: "nothing without maxPerCore",
      maxPerCore: 0,
      min: 131_072,
      cpus: 4,
      entries: undefined,
    },
    { name: "min on a small node", maxPerCore: 32_768, min: 131_072, cpus: 2, entries: 131_072 },
    { name: "by CPU on a larger one", maxPerCore: 32_768, min: 131_072, cpus: 8, entries: 262_144 },
    { name: "exactly the cap", maxPerCore: 32_768, min: 0, cpus: 32, entries: 1_048_576 },
    { name: "no more than the cap", maxPerCore: 32_768, min: 0, cpus: 33, entries: 1_048_576 },
    {
      name: "the cap, even if min is higher",
      maxPerCore: 32_768,
      min: 4_000_000,
      cpus: 64,
      entries: 1_048_576,
    },
    {
      name: "min above the cap, as long as the CPUs stay below it",
      maxPerCore: 1,
      min: 4_000_000,
      cpus: 64,
      entries: 4_000_000,
    },
  ];
  for (const { name, maxPerCore, min, cpus, entries } of cases) {
    it(`sets the limit: ${name}`, () => {
      const { max } = planConntrackLimits({ ...off, maxPerCore, min }, cpus);
      assert.equal(max?.entries, entries);
      assert.equal(max?.minBuckets, entries === undefined ? undefined : Math.floor(entries / 4));
    });
  }

  it("sets only configured values", () => {
    assert.deepEqual(planConntrackLimits(off, 4).sysctls, []);
    const all = {
      ...off,
      tcpEstablishedTimeoutSeconds: 86_400,
      tcpCloseWaitTimeoutSeconds: 3_600,
      udpTimeoutSeconds: 30,
      udpStreamTimeoutSeconds: 120,
      tcpBeLiberal: true,
    };
    assert.deepEqual(
      planConntrackLimits(all, 4).sysctls.map(({ path, value }) => `${path}=${value}`),
      [
        "net/netfilter/nf_conntrack_tcp_timeout_established=86400",
        "net/netfilter/nf_conntrack_tcp_timeout_close_wait=3600",
        "net/netfilter/nf_conntrack_tcp_be_liberal=1",
        "net/netfilter/nf_conntrack_udp_timeout=30",
        "net/netfilter/nf_conntrack_udp_timeout_stream=120",
      ],
    );
  });
});

describe("countCpus", () => {
  for (const [list, count] of [
    ["0", 1],
    ["0-3\n", 4],
    ["0-3,8,10-11", 7],
    ["", undefined],
    ["all", undefined],
  ] as const) {
    it(JSON.stringify(list), () => assert.equal(countCpus(list), count));
  }
});
