/**
 * Checks with real connections what the commands report about traffic that other software or the network stops.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { after, before, describe, it } from "node:test";
import { setImmediate as immediately } from "node:timers/promises";
import { LabNode } from "../support/lab-node.ts";
import { enterNetworkNamespace, shell } from "../support/netns/network-namespace.ts";
import { endpoint, endpointSlice, service } from "../support/objects.ts";
import { ip } from "../support/records.ts";
import { kubeIpvs } from "../support/run-kube-ipvs.ts";

const [first, second] = [
  { name: "pod-1", address: "10.244.1.10" },
  { name: "pod-2", address: "10.244.1.20" },
];
const endpoints = [first, second].map(({ address }) => endpoint(address, { nodeName: "node-1" }));
const web = { address: "10.96.0.10", port: 80 };
const asked = ["explain", "--from", "192.168.10.1", "--to", "10.96.0.10:80"];

/**
 * Whether a TCP connection to the Service can be opened from one of the lab's namespaces. With `isExpected`, waits
 * longer.
 */
async function connects(namespace: "node" | "client", isExpected: boolean): Promise<boolean> {
  enterNetworkNamespace(namespace);
  const socket = connect(web.port, web.address);
  const signal = AbortSignal.timeout(isExpected ? 30_000 : 3_000);
  const opened = once(socket, "connect", { signal }).then(
    () => true,
    () => false,
  );
  // The socket is opened in the next tick.
  await immediately();
  enterNetworkNamespace("node");
  const isOpen = await opened;
  socket.destroy();
  return isOpen;
}

const drops: readonly (readonly [
  breaks: string,
  mends: string,
  verdict: RegExp,
  judged: RegExp,
])[] = [
  [
    "-t raw -I PREROUTING -d 10.96.0.10 -j DROP",
    "-t raw -D PREROUTING -d 10.96.0.10 -j DROP",
    /are dropped by raw PREROUTING: -d 10\.96\.0\.10\/32 -j DROP\n/,
    /^fail +packets +packets to default\/web 10\.96\.0\.10:80 from pods \(10\.244\.0\.0\/16\), elsewhere are dropped by raw PREROUTING: -d 10\.96\.0\.10\/32 -j DROP$/m,
  ],
  [
    "-P INPUT DROP",
    "-P INPUT ACCEPT",
    /are dropped by filter INPUT: policy DROP\n/,
    /^fail +packets +.* elsewhere are dropped by filter INPUT: policy DROP/m,
  ],
  [
    "-I FORWARD -s 10.244.1.0/24 -j DROP",
    "-D FORWARD -s 10.244.1.0/24 -j DROP",
    /are dropped behind IPVS: its replies are dropped by filter FORWARD: -s 10\.244\.1\.0\/24 -j DROP\n/,
    /^fail +packets +.*, elsewhere are lost: its replies are dropped by filter FORWARD: -s 10\.244\.1\.0\/24 -j DROP$/m,
  ],
];
describe("traffic that other settings on the node stop", () => {
  let node: LabNode;

  before(async () => {
    node = await LabNode.build([first, second]);
    node.apply(service(), endpointSlice({ endpoints }));
    await node.start([
      "--ipvs-sync-period=1h",
      "--kube-ipvs-verification-period=1h",
      "--kube-ipvs-rule-check-period=1h",
    ]);
  });
  after(() => node.destroy());

  for (const [breaks, mends, verdict, judged] of drops) {
    it(`explain and doctor name packets that other software drops: iptables ${breaks}`, async (test) => {
      const isSound = /^ok +packets +traced packets to \d+ destinations?: no third-party rule /m;
      assert.match(kubeIpvs("doctor").out, isSound);
      shell(`iptables -w 5 ${breaks}`);
      try {
        const explanation = kubeIpvs(...asked);
        test.diagnostic(explanation.out);
        assert.match(explanation.out, verdict);
        assert.match(
          explanation.out,
          /^ {2}Planned +Packets .* are balanced over 2 of 2 endpoints/m,
        );
        assert.equal(explanation.code, 2);
        const { code, out } = kubeIpvs("doctor");
        test.diagnostic(out);
        assert.match(out, judged);
        assert.equal(code, 2);
        const isNodeServed = !/ from this node/.test(out);
        assert.equal(await connects("node", isNodeServed), isNodeServed);
        assert.equal(await connects("client", false), false);
      } finally {
        shell(`iptables -w 5 ${mends}`);
      }
    });
  }

  it("explain and doctor name packets that a strict reverse-path check drops", async (test) => {
    const other = "192.168.10.1/32 dev probe0";
    shell(`ip link add probe0 type dummy; ip link set probe0 up; ip route add ${other}`);
    try {
      shell("sysctl -qw net.ipv4.conf.all.rp_filter=1");
      assert.equal(await connects("client", false), false);
      const { code, out } = kubeIpvs(...asked, "--in", "eth0");
      test.diagnostic(out);
      assert.match(
        out,
        /are dropped by the strict reverse-path check: rp_filter of eth0 is 1, and the route to 192\.168\.10\.1 leaves through probe0\n/,
      );
      assert.equal(code, 2);
      assert.match(
        kubeIpvs(...asked).out,
        /^Packets .* are balanced over .*; uncertain because of rp_filter eth0.*: strict; packets that arrive there are dropped, because the route to 192\.168\.10\.1 leaves through probe0\n/,
      );
      const diagnosis = kubeIpvs("doctor").out;
      test.diagnostic(diagnosis);
      assert.match(diagnosis, /^warn +rp-filter +strict on .*eth0.*; [1-9]\d* packets? dropped/m);
    } finally {
      shell("sysctl -qw net.ipv4.conf.all.rp_filter=0; ip link del probe0");
    }
    assert.match(kubeIpvs(...asked, "--in", "eth0").out, /^Packets .* are balanced over 2 of 2/);
    const unknown = kubeIpvs(...asked, "--in", "eth7");
    assert.match(unknown.err, /--in: there is no interface eth7 on this node/);
    assert.equal(unknown.code, 1);
    assert.equal(await connects("client", true), true);
  });

  it("explain names a routing rule that drops marked packets as uncertain", (test) => {
    const marks = `-t mangle %s PREROUTING -d ${first.address} -j MARK --set-xmark 0x8/0x8`;
    shell(`ip rule add fwmark 0x8/0x8 lookup 100; ip route add blackhole default table 100`);
    shell(`iptables -w 5 ${marks.replace("%s", "-I")}`);
    try {
      const [source] = shell(
        `ip route get ${first.address} from 192.168.10.1 iif eth0 mark 8 2>&1 || true`,
      ).split("\n");
      assert.match(source ?? "", /RTNETLINK answers/);
      const { out } = kubeIpvs(
        "explain",
        "--from",
        "192.168.10.1",
        "--to",
        `${first.address}:8080`,
      );
      test.diagnostic(out);
      assert.match(out, /^Packets .*; uncertain because of ip rule fwmark 0x8\/0x8: lookup 100\n/);
    } finally {
      shell(`iptables -w 5 ${marks.replace("%s", "-D")}`);
      shell(`ip rule del fwmark 0x8/0x8 lookup 100; ip route flush table 100`);
    }
  });

  for (const kind of ["blackhole", "unreachable"]) {
    it(`explain and doctor name a route to a pod that is ${kind}`, (test) => {
      const pod = `${first.address}/32`;
      const routeBefore = shell(`ip route show ${pod}`).trim();
      shell(`ip route replace ${kind} ${pod} metric 0; ip route show ${pod}`);
      try {
        const { code, out } = kubeIpvs(...asked);
        test.diagnostic(out);
        assert.match(out, /there is no route to 10\.244\.1\.10, or the route rejects packets/);
        assert.match(
          out,
          /^Packets .* are balanced over 2 of 2 endpoints and masqueraded, but packets to 1 of them are dropped: there is no route/,
        );
        assert.equal(code, 2);
        assert.match(
          kubeIpvs("doctor").out,
          /^fail +packets +.* are lost: there is no route to 10\.244\.1\.10/m,
        );
      } finally {
        shell(`ip route del ${kind} ${pod} metric 0; ip route replace ${routeBefore}`);
      }
    });
  }

  it("explain --probe distinguishes a serving endpoint, a wrong port, and a missing pod", async (test) => {
    const wrong = endpointSlice({
      service: "wrong",
      endpoints: [first.address],
      ports: [{ name: "http", port: 8099 }],
    });
    const absent = endpointSlice({ service: "absent", endpoints: [endpoint("10.244.1.77")] });
    node.apply(
      ...[service(), endpointSlice({ endpoints }), wrong, absent],
      ...["wrong", "absent"].map((name, index) =>
        service({ name, clusterIps: [`10.96.0.2${index}`] }),
      ),
    );
    const verdicts: readonly (readonly [name: string, code: number, says: RegExp])[] = [
      ["web", 0, /^ {2}10\.244\.1\.20:8080 accepts connections \(\d+(\.\d)? ms\)$/m],
      ["wrong", 2, /^ {2}10\.244\.1\.10:8099 does not accept connections: ECONNREFUSED$/m],
      [
        "absent",
        2,
        /^ {2}10\.244\.1\.77:8080 does not accept connections: (no answer within 2 s|EHOSTUNREACH)$/m,
      ],
    ];
    await node.hasWeights(
      { protocol: "TCP", address: ip("10.96.0.21"), port: 80 },
      "10.244.1.77 1",
    );
    for (const [name, code, says] of verdicts) {
      const found = kubeIpvs("explain", `svc/${name}`, "--probe");
      test.diagnostic(found.out);
      assert.match(found.out, says);
      assert.equal(found.code, code, name);
    }
  });
});
