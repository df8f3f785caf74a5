/**
 * Uses a real kernel to test that existing sets with different parameters are recreated while rules refer to them. Also
 * tests that each of kube-proxy's set creations succeeds on the state that kube-ipvs leaves behind.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ipFamilies } from "../../src/base/ip.ts";
import { setFor, setsFor } from "../../src/plan/sets.ts";
import type { IpSet } from "../../src/state/ip-set.ts";
import { nodeSetUp } from "../golden/node-set-up.ts";
import {
  cleanUpLab,
  eventually,
  type Flags,
  startLabDaemon,
  withLabDaemon,
} from "../support/lab-daemon.ts";
import { shell, withNetworkNamespace } from "../support/netns/network-namespace.ts";
import {
  type ApiObject,
  endpoint,
  endpointSlice,
  service,
  servicePort,
} from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";

const rangeCount = 70_000;

/** Objects that create entries in nearly every set. */
const objects: readonly ApiObject[] = [
  service({
    type: "LoadBalancer",
    clusterIps: ["10.96.0.10", "fd00:96::10"],
    ports: [
      servicePort({ nodePort: 30_080 }),
      servicePort({ name: "dns", protocol: "UDP", port: 53, nodePort: 30_053 }),
      servicePort({ name: "sctp", protocol: "SCTP", port: 9_000, nodePort: 30_900 }),
    ],
    spec: {
      externalIPs: ["203.0.113.5"],
      loadBalancerSourceRanges: ["198.51.100.0/24", "192.168.10.0/24"],
    },
    status: { loadBalancer: { ingress: [{ ip: "203.0.113.10" }] } },
  }),
  endpointSlice({ endpoints: [endpoint("10.244.1.10", { nodeName: "node-1" })] }),
];

function inNamespace(body: () => Promise<void>): Promise<void> {
  return withNetworkNamespace("sets", nodeSetUp, body);
}

function createLine({ name, type, family }: IpSet): string {
  if (type === "bitmap:port") return `ipset create ${name} ${type} range 0-65535 -exist`;
  const word = family === "IPv4" ? "inet" : "inet6";
  return `ipset create ${name} ${type} family ${word} hashsize 1024 maxelem 65536 -exist`;
}

/** Creates sets as kube-proxy does at startup. Fails on the first rejected creation. */
function createAsKubeProxy(): number {
  const lines = ipFamilies.flatMap(setsFor).map(createLine);
  shell(lines.join("\n"));
  return lines.length;
}

/** Sets without values that the kernel chooses, and rules without counters. */
function state(): string {
  const sets = shell("ipset save | sort").replaceAll(
    / (?:hashsize|bucketsize) \d+| initval \S+/g,
    "",
  );
  const rules = ["iptables-save", "ip6tables-save"].map((program) =>
    shell(program).replaceAll(/ \[\d+:\d+\]$|^#.*\n/gm, ""),
  );
  // Tables are printed in the order of their first use.
  return [
    sets,
    ...rules.map((text) =>
      text
        .split(/^(?=\*)/m)
        .sort()
        .join(""),
    ),
  ].join("\n");
}

/** The result of a start in an empty namespace. */
async function freshState(): Promise<string> {
  let fresh = "";
  await inNamespace(() =>
    withLabDaemon(objects, {}, async () => {
      fresh = state();
    }),
  );
  return fresh;
}

const fresh = await freshState();

describe("on the state that kube-ipvs leaves behind", () => {
  it("all 34 set creations of kube-proxy succeed", async (test) => {
    await inNamespace(() =>
      withLabDaemon(objects, {}, async () => {
        assert.equal(createAsKubeProxy(), 34);
        assert.equal(state(), fresh);
        test.diagnostic(`entries: ${fresh.match(/^add /gm)?.length}`);
      }),
    );
  });
});

interface Misfit {
  readonly set: IpSet;
  /** The arguments after `ipset create NAME`. */
  readonly how: string;
  readonly entry?: string;
}

/**
 * In each round, every incompatible set replaces a different set. There are two rounds, because there are more kinds of
 * incompatible sets than sets with entries.
 */
const rounds: readonly (readonly Misfit[])[] = [
  [
    {
      set: setFor("clusterIp", "IPv4"),
      how: "hash:ip,port maxelem 1000",
      entry: "10.96.0.10,tcp:80",
    },
    { set: setFor("clusterIp", "IPv6"), how: "hash:ip,port family inet6 maxelem 200000" },
    { set: setFor("loopBack", "IPv4"), how: "hash:ip,port,ip timeout 600" },
    { set: setFor("ipvsIps", "IPv4"), how: "hash:ip counters", entry: "10.96.0.10" },
    { set: setFor("externalIp", "IPv4"), how: "hash:ip,port comment" },
    {
      set: setFor("nodePortTcp", "IPv4"),
      how: "bitmap:port range 30000-32767",
      entry: "30080",
    },
  ],
  [
    { set: setFor("clusterIp", "IPv4"), how: "hash:ip", entry: "10.96.0.10" },
    { set: setFor("ipvsIps", "IPv4"), how: "hash:net", entry: "10.96.0.0/16" },
    { set: setFor("nodePortTcp", "IPv6"), how: "hash:ip,port family inet6" },
    { set: setFor("loadBalancerSourceCidr", "IPv4"), how: "hash:ip,port,ip" },
  ],
];

/** Rules for the other family cannot refer to the set. */
const ofOtherFamily: Misfit = {
  set: setFor("loadBalancer", "IPv4"),
  how: "hash:ip,port family inet6",
};

function createMisfit({ set, how, entry }: Misfit): string {
  const add = entry === undefined ? "" : `ipset add ${set.name} ${entry}`;
  return `ipset create ${set.name} ${how}\n${add}`;
}

/** Replaces sets with incompatible ones, while the same rules refer to them. */
function exchange(misfits: readonly Misfit[]): void {
  shell(`
    iptables-save > /run/rules4
    ip6tables-save > /run/rules6
    for table in nat filter; do iptables -t $table -F; ip6tables -t $table -F; done
    ${misfits.map(({ set }) => `ipset destroy ${set.name}`).join("\n")}
    ${misfits.map(createMisfit).join("\n")}
    iptables-restore < /run/rules4
    ip6tables-restore < /run/rules6
  `);
}

describe("existing sets with different parameters", () => {
  for (const [index, misfits] of rounds.entries()) {
    const names = misfits.map(({ set, how }) => `${set.name} ${how}`).join("; ");

    it(`are recreated (${names})`, async () => {
      await inNamespace(async () => {
        const all = index === 0 ? misfits : [...misfits, ofOtherFamily];
        shell(all.map(createMisfit).join("\n"));
        await withLabDaemon(objects, {}, async (daemon) => {
          assert.deepEqual(daemon.errors, []);
          assert.equal(state(), fresh);
        });
        assert.equal(createAsKubeProxy(), 34);
      });
    });

    // The kernel keeps a set of a different type as long as a rule refers to it.
    if (index > 0) continue;

    it("are recreated while rules refer to them", async () => {
      await inNamespace(async () => {
        await withLabDaemon(objects, {}, async () => {});
        exchange(misfits);
        await withLabDaemon(objects, {}, async (daemon) => {
          assert.deepEqual(daemon.errors, []);
          assert.equal(state(), fresh);
        });
        assert.equal(createAsKubeProxy(), 34);
      });
    });
  }

  it("are reported if a third-party rule refers to one of a different type; everything else works, and a start after --cleanup recreates it", async () => {
    const { name } = setFor("clusterIp", "IPv4");
    const foreign = `FORWARD -m set --match-set ${name} dst -j DROP`;
    await inNamespace(async () => {
      shell(`ipset create ${name} hash:ip\niptables -A ${foreign}`);
      const running = startLabDaemon(objects);
      await eventually(() => shell("ipset list -n | wc -l").trim(), "34", patienceMs);
      await eventually(
        () => shell("ipvsadm -Sn").includes("-a -t 10.96.0.10:80"),
        true,
        patienceMs,
      );
      shell(`iptables -D ${foreign}`);
      const daemon = await running;
      try {
        assert.ok(
          daemon.errors.some((text) => text.includes(`Cannot replace set ${name} (hash:ip)`)),
        );
      } finally {
        await daemon.stop();
      }
      // By now, kube-ipvs's own rules also refer to the set.
      await cleanUpLab();
      await withLabDaemon(objects, {}, async () => {
        await eventually(state, fresh, patienceMs);
      });
    });
  });
});

describe("a set of more than 65,536 entries", () => {
  const flags: Flags = {
    "ipvs-sync-period": "2s",
    "kube-ipvs-service-frontend-limit": "0",
  };
  const { name } = setFor("loadBalancerSourceCidr", "IPv4");
  const ranges = Array.from(
    { length: rangeCount },
    (_, index) => `11.${index >> 16}.${(index >> 8) & 255}.${index & 255}/32`,
  );

  function withRanges(loadBalancerSourceRanges: readonly string[]): ApiObject {
    return service({
      type: "LoadBalancer",
      spec: { loadBalancerSourceRanges },
      status: { loadBalancer: { ingress: [{ ip: "203.0.113.10" }] } },
    });
  }

  /** maxelem, and the number of entries. */
  function figures(): readonly (string | undefined)[] {
    const text = shell(`ipset list -t ${name}`);
    return [/maxelem (\d+)/.exec(text)?.[1], /entries: (\d+)/.exec(text)?.[1]];
  }

  it("grows, contains all of these entries, and shrinks again for kube-proxy", async (test) => {
    await inNamespace(() =>
      withLabDaemon([withRanges(ranges.slice(0, 5))], flags, async (daemon) => {
        assert.deepEqual(figures(), ["65536", "5"]);
        const beganMs = performance.now();
        daemon.apply(withRanges(ranges));
        await daemon.settled();
        test.diagnostic(`grown to ${rangeCount} in ${(performance.now() - beganMs).toFixed(0)} ms`);
        assert.deepEqual(figures(), ["131072", String(rangeCount)]);
        assert.throws(createAsKubeProxy, /KUBE-LOAD-BALANCER-SOURCE-CIDR|Set cannot be created/);
        daemon.apply(withRanges(ranges.slice(0, 60_000)));
        await eventually(figures, ["65536", "60000"], patienceMs);
        assert.equal(createAsKubeProxy(), 34);
        assert.deepEqual(daemon.errors, []);
      }),
    );
  });
});

describe("clean-up", () => {
  it("removes the objects that an interrupted migration left behind", async () => {
    await inNamespace(async () => {
      await withLabDaemon(objects, {}, async () => {});
      shell("ipset create KTMP-CLUSTER-IP hash:ip,port");
      const lines = await cleanUpLab();
      assert.equal(shell("ipset list -n"), "");
      assert.ok(lines.includes("  Sets: 35"), lines.join("\n"));
    });
  });
});
