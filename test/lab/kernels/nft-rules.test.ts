/**
 * Checks with real connections what `kube-ipvs explain` and the check `packets` find about third-party nftables rules.
 * Needs a kernel with nf_tables.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { openIn } from "../../support/client-traffic.ts";
import { LabNode } from "../../support/lab-node.ts";
import { clientAddress } from "../../support/node-network.ts";
import { endpoint, endpointSlice, service, servicePort } from "../../support/objects.ts";
import { ip } from "../../support/records.ts";

const program = join(import.meta.dirname, "../../../dist/kube-ipvs");
const pod = { name: "pod-1", address: "10.244.1.10" };
const clusterIp = "10.96.0.10";
const server = { protocol: "TCP", address: ip(clusterIp), port: 80 } as const;
const connectMs = 3_000;

/** A base chain in `inet fw`, and other chains or sets. */
interface Case {
  readonly title: string;
  readonly hook: string;
  readonly priority?: string;
  readonly policy?: "drop";
  readonly rules?: readonly string[];
  readonly more?: string;
  /** The rule that the summary names. Undefined if the connection succeeds. */
  readonly named?: string;
  readonly outcome?: "refused";
}

const cases: readonly Case[] = [
  { title: "an input policy", hook: "input", policy: "drop", named: "input: policy drop" },
  {
    title: "an input policy with accepting rules",
    hook: "input",
    policy: "drop",
    rules: ["ct state { established, related } accept", "tcp dport { 22, 80-90 } accept"],
  },
  {
    title: "an input policy that accepts the loopback link",
    hook: "input",
    policy: "drop",
    rules: ["iif lo accept", "ct state established accept"],
    named: "input: policy drop",
  },
  {
    title: "an input rule by port",
    hook: "input",
    rules: ["tcp dport 81 drop", "tcp dport { 22, 80-90 } drop"],
    named: "input: th dport { 22, 80-90 } drop",
  },
  {
    title: "a port next to an interval",
    hook: "input",
    rules: ["tcp dport { 22, 70-79, 81-90 } drop"],
  },
  {
    title: "a rule before connection tracking",
    hook: "prerouting",
    priority: "raw - 10",
    rules: ["ip saddr 192.168.0.0/16 ip daddr 10.96.0.0/16 drop"],
    named: "prerouting: ip saddr 192.168.0.0/16 ip daddr 10.96.0.0/16 drop",
  },
  {
    title: "a link",
    hook: "prerouting",
    rules: ['iifname "eth*" meta l4proto tcp drop'],
    named: 'prerouting: iifname "eth*" drop',
  },
  { title: "another link", hook: "prerouting", rules: ['iifname { "veth9", "lo" } drop'] },
  {
    title: "an output rule behind IPVS",
    hook: "output",
    rules: ["ip daddr 10.244.0.0/16 tcp dport 8080 ct state new drop"],
    named: "output: ip daddr 10.244.0.0/16 th dport 8080 ct state new drop",
  },
  {
    title: "a postrouting rule",
    hook: "postrouting",
    rules: ['oifname "veth1" drop'],
    named: 'postrouting: oifname "veth1" drop',
  },
  {
    title: "answers",
    hook: "forward",
    policy: "drop",
    rules: ["ct state new accept"],
    named: "forward: policy drop",
  },
  {
    title: "answers that pass",
    hook: "forward",
    policy: "drop",
    rules: ["ct state established accept"],
  },
  {
    title: "a verdict map and a jump",
    hook: "input",
    rules: ["tcp dport vmap { 80 : jump web, 81 : drop }"],
    more: "chain web { fib daddr type local reject with tcp reset; }",
    named: "web: fib daddr type local reject",
    outcome: "refused",
  },
  {
    title: "a set with concatenations",
    hook: "input",
    rules: ["ip saddr . tcp dport @blocked drop"],
    more: "set blocked { type ipv4_addr . inet_service; flags interval; elements = { 192.168.10.0/24 . 80-90 } }",
    named: "input: ip saddr . th dport @blocked drop",
  },
  {
    title: "flags of the first packet",
    hook: "input",
    rules: ["tcp flags & (syn | ack) == syn ct direction original drop"],
    named: "input: tcp flags & 18 == 2 ct direction 0x00 drop",
  },
  {
    title: "a rate that is not exceeded",
    hook: "input",
    rules: ["limit rate over 1000/second drop"],
  },
];

function nft(script: string): void {
  const { status, stderr } = spawnSync("nft", ["-f", "-"], { input: script, encoding: "utf8" });
  assert.equal(status, 0, `${script}\n${stderr}`);
}

function kubeIpvs(...args: readonly string[]): {
  readonly status: number | null;
  readonly out: string;
} {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: "utf8" });
  return { status, out: stdout === "" ? stderr : stdout };
}

/** Returns `open`, the error code, or `timeout` if there is no answer. */
async function connection(): Promise<string> {
  return await openIn("client", async () => {
    const socket = connect({ host: clusterIp, port: 80 });
    const signal = AbortSignal.timeout(connectMs);
    try {
      await once(socket, "connect", { signal });
      return "open";
    } catch (error) {
      return signal.aborted ? "timeout" : ((error as NodeJS.ErrnoException).code ?? "error");
    } finally {
      socket.destroy();
    }
  });
}

describe("third-party nftables rules", () => {
  let node: LabNode;

  before(async () => {
    node = await LabNode.build([pod]);
    node.apply(
      service({ ports: [servicePort()] }),
      endpointSlice({ endpoints: [endpoint(pod.address, { nodeName: "node-1" })] }),
    );
    await node.start();
    await node.hasWeights(server, "pod-1 1");
  });

  after(async () => {
    await node.destroy();
  });

  for (const {
    title,
    hook,
    priority = "filter",
    policy = "accept",
    rules = [],
    ...given
  } of cases) {
    it(`have the effect that explain reports: ${title}`, async () => {
      const { named, more = "", outcome = "dropped" } = given;
      const chain = `chain ${hook} { type filter hook ${hook} priority ${priority}; policy ${policy};`;
      nft(`table inet fw {\n${more}\n${chain}\n${rules.join("\n")}\n}\n}`);
      try {
        const { out } = kubeIpvs(
          "explain",
          "--from",
          clientAddress,
          "--to",
          `${clusterIp}:80`,
          "-o",
          "json",
        );
        const [{ summary, verdict }] = JSON.parse(out).items;
        const happened = await connection();
        if (named === undefined) {
          assert.deepEqual([verdict, happened], ["balanced", "open"], summary);
          return;
        }
        assert.ok(summary.endsWith(`inet fw ${named}`), summary);
        assert.deepEqual(
          [verdict, happened],
          [outcome, outcome === "refused" ? "ECONNREFUSED" : "timeout"],
        );
      } finally {
        nft("delete table inet fw");
      }
    });
  }

  it("make the check `packets` fail, and are named there", () => {
    nft("table inet fw {\nchain input { type filter hook input priority 0; policy drop; }\n}");
    try {
      const { out } = kubeIpvs("doctor", "-o", "json");
      const { verdict, evidence } = JSON.parse(out).checks.find(
        ({ name }: { readonly name: string }) => name === "packets",
      );
      assert.equal(verdict, "fail", evidence);
      assert.match(evidence, /default\/web 10\.96\.0\.10:80 .* by inet fw input: policy drop/);
    } finally {
      nft("delete table inet fw");
    }
  });
});
