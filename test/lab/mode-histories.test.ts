/**
 * Tests a node whose mode changes repeatedly while Services change and the program is killed at any moment of its
 * startup. The final state must equal that of a start on an empty node.
 */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import fc from "fast-check";
import { recordedForm } from "../golden-iptables/expected-form.ts";
import { LabNode } from "../support/lab-node.ts";
import { shell } from "../support/netns/network-namespace.ts";
import { type ApiObject, endpointSlice, service, servicePort } from "../support/objects.ts";
import { Program } from "../support/program.ts";
import { seeds } from "../support/seeds.ts";

const counts = { short: 1, long: 10 };

const modes = ["ipvs", "iptables", "userspace"] as const;
type Mode = (typeof modes)[number];

const dns = { name: "dns", protocol: "UDP", port: 53, targetPort: 5353 };
const web = service({
  type: "LoadBalancer",
  clusterIps: ["10.96.0.10", "fd00:96::a"],
  ports: [servicePort({ nodePort: 30_080 })],
  spec: { externalIPs: ["203.0.113.7"] },
  status: { loadBalancer: { ingress: [{ ip: "203.0.113.8" }] } },
});
const local = service({
  name: "local",
  type: "NodePort",
  clusterIps: ["10.96.0.12"],
  ports: [servicePort({ nodePort: 30_081 })],
  spec: { externalTrafficPolicy: "Local", sessionAffinity: "ClientIP" },
});
const sets: readonly (readonly ApiObject[])[] = [
  [web, endpointSlice({ endpoints: ["10.244.2.11", "10.244.2.12"] }), local],
  [
    web,
    local,
    endpointSlice({ service: "local", endpoints: ["10.244.2.13"] }),
    service({ name: "dns", clusterIps: ["10.96.0.11"], ports: [dns] }),
    endpointSlice({ service: "dns", ports: [{ ...dns, port: 5353 }] }),
  ],
  [],
];

interface Start {
  readonly mode: Mode;
  /** Index in {@link sets}. */
  readonly objects: number;
  /** The program is killed after this number of log lines. 0 means after it has settled. */
  readonly killedAfterLines: number;
  readonly signal: "SIGKILL" | "SIGTERM";
}

const starts: fc.Arbitrary<Start> = fc.record({
  mode: fc.constantFrom(...modes),
  objects: fc.nat(sets.length - 1),
  killedAfterLines: fc.oneof(
    { weight: 1, arbitrary: fc.constant(0) },
    { weight: 3, arbitrary: fc.integer({ min: 1, max: 40 }) },
  ),
  signal: fc.constantFrom("SIGKILL", "SIGKILL", "SIGTERM"),
});
const histories = fc.noBias(fc.array(starts, { minLength: 4, maxLength: 4 }));

function flagsOf(mode: Mode): readonly string[] {
  return [
    `--proxy-mode=${mode}`,
    "--iptables-min-sync-period=0s",
    "--kube-ipvs-udp-drain-deadline=1s",
  ];
}

/** Everything that a mode creates, without the random ports of userspace mode's sockets. */
function state(): string {
  const rules = ["iptables-save", "ip6tables-save"].map((save) => recordedForm(shell(save)));
  return [
    ...rules.map((text) =>
      text
        .replaceAll(/--to-ports \d+/g, "--to-ports PORT")
        .replaceAll(
          /--dport \d+ (-m conntrack --ctstate (?:DNAT -j ACCEPT|NEW -j DROP))/g,
          "--dport PORT $1",
        )
        // kubelet has this chain, too.
        .replaceAll(/^.*(?:KUBE-FIREWALL|"block incoming localnet connections").*\n?/gm, ""),
    ),
    shell("ipset save").split("\n").sort().join("\n"),
    shell("ipvsadm -Sn").split("\n").sort().join("\n"),
    shell("ip -o address show kube-ipvs0 2> /dev/null || true").replaceAll(/^\d+: /gm, ""),
  ].join("\n");
}

describe("a node whose mode changes", () => {
  let node: LabNode;
  const fresh = new Map<string, string>();

  before(async () => {
    node = await LabNode.build([]);
  });
  afterEach(() => node.stop());
  after(() => node.destroy());

  /** The result of a start on an empty node. */
  async function freshState(mode: Mode, objects: number): Promise<string> {
    const key = `${mode} ${objects}`;
    const known = fresh.get(key);
    if (known !== undefined) return known;
    shell(`dist/kube-ipvs --cleanup ${node.flags.join(" ")}; rm -rf /run/kube-ipvs`);
    node.apply(...(sets[objects] ?? []));
    await node.start(flagsOf(mode));
    const settled = state();
    await node.stop("SIGTERM");
    fresh.set(key, settled);
    return settled;
  }

  async function undergo({ mode, objects, killedAfterLines, signal }: Start): Promise<void> {
    node.apply(...(sets[objects] ?? []));
    const program = new Program([...node.flags, ...flagsOf(mode)]);
    if (killedAfterLines === 0) await program.prints(/SyncProxyRules complete/);
    else await program.prints(new RegExp(`(.*\\n){${killedAfterLines}}|SyncProxyRules complete`));
    program.kill(signal);
    await program.ends();
  }

  for (const seed of seeds(counts)) {
    const [history = []] = fc.sample(histories, { seed, numRuns: 1 });
    const text = history
      .map(
        ({ mode, objects, killedAfterLines: lines, signal }) =>
          `${mode} ${objects} ${lines === 0 ? signal : `${signal} after ${lines} lines`}`,
      )
      .join(", ");
    it(`ends in the state of a fresh start: seed ${seed}: ${text}`, async (test) => {
      const last = history.at(-1) ?? assert.fail();
      const wanted = await freshState(last.mode, last.objects);
      for (const start of history) await undergo(start);
      await node.start(flagsOf(last.mode));
      const deadlineMs = performance.now() + 60_000;
      let there = state();
      while (there !== wanted && performance.now() < deadlineMs) {
        await pause(500);
        there = state();
      }
      if (there !== wanted) test.diagnostic(node.program.output);
      assert.equal(there, wanted);
    });
  }
});
