/**
 * Tests a node whose mode changes repeatedly, while Services change and while the program is killed at any moment of
 * its startup. The final state must equal that of a start on an empty node.
 */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import fc from "fast-check";
import { recordedForm } from "../golden-iptables/expected-form.ts";
import { LabNode } from "../support/lab-node.ts";
import { shell } from "../support/netns/network-namespace.ts";
import { type ApiObject, endpointSlice, service, servicePort } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
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
  metadata: { annotations: { "kube-ipvs.io/port-range": "7000-7100" } },
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

/** Values of `kubeIpvs.portRangeMarks`. */
const masks = ["", "0x3fff0000", "0x0fff8000"];

interface Start {
  readonly mode: Mode;
  readonly portRangeMarks: string;
  /** Index in {@link sets}. */
  readonly objects: number;
  /** The program is killed after this number of log lines. 0 means after it has settled. */
  readonly killedAfterLines: number;
  readonly signal: "SIGKILL" | "SIGTERM";
}

const starts: fc.Arbitrary<Start> = fc.record({
  mode: fc.constantFrom(...modes),
  portRangeMarks: fc.constantFrom(...masks),
  objects: fc.nat(sets.length - 1),
  killedAfterLines: fc.oneof(
    { weight: 1, arbitrary: fc.constant(0) },
    { weight: 3, arbitrary: fc.integer({ min: 1, max: 40 }) },
  ),
  signal: fc.constantFrom("SIGKILL", "SIGKILL", "SIGTERM"),
});
const histories = fc.noBias(fc.array(starts, { minLength: 4, maxLength: 4 }));

function flagsOf({
  mode,
  portRangeMarks,
}: Pick<Start, "mode" | "portRangeMarks">): readonly string[] {
  return [
    `--proxy-mode=${mode}`,
    ...(portRangeMarks === "" ? [] : [`--kube-ipvs-port-range-marks=${portRangeMarks}`]),
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
  async function freshState(last: Start): Promise<string> {
    const { objects } = last;
    const key = [...flagsOf(last), objects].join(" ");
    const known = fresh.get(key);
    if (known !== undefined) return known;
    shell(`dist/kube-ipvs --cleanup ${node.flags.join(" ")}; rm -rf /run/kube-ipvs`);
    node.apply(...(sets[objects] ?? []));
    await node.start(flagsOf(last));
    const settled = state();
    await node.stop("SIGTERM");
    fresh.set(key, settled);
    return settled;
  }

  async function undergo(start: Start): Promise<void> {
    const { objects, killedAfterLines, signal } = start;
    node.apply(...(sets[objects] ?? []));
    const program = new Program([...node.flags, ...flagsOf(start)]);
    if (killedAfterLines === 0) await program.prints(/SyncProxyRules complete/);
    else await program.prints(new RegExp(`(.*\\n){${killedAfterLines}}|SyncProxyRules complete`));
    program.kill(signal);
    await program.ends();
  }

  for (const seed of seeds(counts)) {
    const [history = []] = fc.sample(histories, { seed, numRuns: 1 });
    const text = history
      .map(
        ({ mode, portRangeMarks, objects, killedAfterLines: lines, signal }) =>
          `${mode} ${portRangeMarks} ${objects} ${lines === 0 ? signal : `${signal} after ${lines} lines`}`,
      )
      .join(", ");
    it(`ends in the state of a fresh start: seed ${seed}: ${text}`, async (test) => {
      const last = history.at(-1) ?? assert.fail();
      const wanted = await freshState(last);
      for (const start of history) await undergo(start);
      await node.start(flagsOf(last));
      const deadlineMs = performance.now() + patienceMs;
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
