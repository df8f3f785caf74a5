/** Tests the operator's commands in iptables and userspace mode with the running program. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { parseJson } from "../../src/base/parse-json.ts";
import { askName, Connection } from "../support/client-traffic.ts";
import { listsInvalidObject } from "../support/invalid-object.ts";
import { LabNode } from "../support/lab-node.ts";
import { shell } from "../support/netns/network-namespace.ts";
import { clientAddress, nodeAddress, podGateway } from "../support/node-network.ts";
import { type ApiObject, endpoint, endpointSlice, service } from "../support/objects.ts";
import { judgedRivals, rivalServices } from "../support/rival-services.ts";
import {
  differencesOf,
  explained,
  judgedConflicts,
  kubeIpvs,
  plannedOf,
} from "../support/run-kube-ipvs.ts";

const pods = [
  { name: "pod-1", address: "10.244.1.10" },
  { name: "pod-2", address: "10.244.1.20" },
];
const clusterIp = "10.96.0.10";
const nodePort = 30_080;

const objects: readonly ApiObject[] = [
  service({
    type: "NodePort",
    ports: [{ name: "http", protocol: "TCP", port: 80, nodePort, targetPort: 8080 }],
  }),
  endpointSlice({
    endpoints: [
      ...pods.map(({ address }) => endpoint(address, { nodeName: "node-1" })),
      endpoint("10.244.2.30", {
        nodeName: "node-2",
        conditions: { ready: false, serving: false, terminating: false },
      }),
    ],
  }),
  service({ name: "empty", clusterIps: ["10.96.0.11"] }),
  service({
    name: "sticky",
    clusterIps: ["10.96.0.12"],
    spec: {
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } },
    },
  }),
  endpointSlice({ service: "sticky", endpoints: pods.map(({ address }) => address) }),
];

/** A Service with every kind of address. */
const edge = service({
  name: "edge",
  type: "LoadBalancer",
  clusterIps: ["10.96.0.13"],
  ports: [{ name: "http", protocol: "TCP", port: 80, nodePort: 30_081, targetPort: 8080 }],
  spec: { externalIPs: ["203.0.113.7"] },
  status: { loadBalancer: { ingress: [{ ip: "203.0.113.8" }] } },
});

/** A Service that a file would add. */
const fresh = [
  service({ name: "new", clusterIps: ["10.96.0.14"] }),
  endpointSlice({ service: "new", endpoints: ["10.244.1.10"] }),
];

/** Disables checks that would repair the damage of a test. */
const unrepaired = [
  "--kube-ipvs-rule-check-period=1h",
  "--iptables-sync-period=1h",
  "--iptables-min-sync-period=0s",
];

describe("the operator's commands in other modes", () => {
  let node: LabNode;

  before(async () => {
    node = await LabNode.build(pods);
    shell("sysctl -qw net.ipv4.ip_forward=1");
    node.apply(...objects);
  });
  after(() => node.destroy());

  async function namesRivals(flags: readonly string[]): Promise<void> {
    node.apply(...objects, ...rivalServices(pods[0]?.address ?? ""));
    await node.program.prints(/Virtual server is claimed by another Service/);
    try {
      assert.equal(judgedConflicts(...flags), judgedRivals);
      assert.match(kubeIpvs("status").out, /^Conflicts +1\n {2}default\/later for /m);
    } finally {
      node.apply(...objects);
    }
  }

  describe("iptables mode", () => {
    const flags = ["--proxy-mode=iptables", ...unrepaired];
    const mark = "KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000";

    before(() => node.start(flags));

    it("explain an open connection from its client to its endpoint", async (test) => {
      const connection = await Connection.open(clusterIp, 80, "echo");
      const pod = await connection.name();
      const { code, out } = kubeIpvs("explain", "--from", clientAddress, "--to", `${clusterIp}:80`);
      test.diagnostic(out);
      connection.reset();
      assert.equal(code, 0);
      const lines = out.split("\n");
      assert.equal(
        lines[0],
        `Packets from ${clientAddress} to ${clusterIp}:80 are balanced over 2 of 3 endpoints and masqueraded`,
      );
      assert.ok(lines.includes("Mode     iptables"), "the mode");
      assert.ok(lines.includes("  no difference"), "kernel and plan are alike");
      assert.match(out, /^ {2}nat KUBE-SEP-\S+ +yes +- +-p tcp -m tcp -j DNAT /m);
      const address = pods.find(({ name }) => name === pod)?.address;
      assert.ok(
        lines.some((line) => line.startsWith("  conntrack: ") && line.endsWith(` ${address}:8080`)),
        `conntrack names ${address}`,
      );
    });

    it("explain every address of a Service, and an address that no Service has", () => {
      assert.deepEqual(
        explained("svc/web", "--from", clientAddress).map(({ summary }) => summary),
        [`${clusterIp}:80`, `${podGateway}:${nodePort}`, `${nodeAddress}:${nodePort}`].map(
          (place) =>
            `Packets from ${clientAddress} to ${place} are balanced over 2 of 3 endpoints and masqueraded`,
        ),
      );
      const [empty] = explained("svc/empty", "--from", "node");
      assert.match(empty?.summary ?? "", /are refused by filter KUBE-SERVICES: .*has no endpoints/);
    });

    it("report that nothing is draining, and why", () => {
      const { code, err } = kubeIpvs("drains");
      assert.equal(code, 1);
      assert.match(err, /^kube-ipvs drains: [^\n]*: iptables mode has no drains: [^{\n]*\n$/);
    });

    it("explain which endpoint session affinity selects for a client", async () => {
      const sticky = ["--from", clientAddress, "--to", "10.96.0.12:80"];
      const [before] = explained(...sticky);
      assert.deepEqual(before?.connections.templates, []);
      const pod = await askName("10.96.0.12", 80);
      const address = pods.find(({ name }) => name === pod)?.address;
      const [now] = explained(...sticky);
      assert.deepEqual(now?.connections.templates, [
        { client: clientAddress, realServer: `${address}:8080`, state: "RECENT" },
      ]);
      assert.match(
        kubeIpvs("explain", ...sticky).out,
        /^Mode +iptables, a client keeps its endpoint for 600 s$/m,
      );
    });

    it("plan the changes from applying a file", (test) => {
      const { code, out } = plannedOf(...fresh);
      test.diagnostic(out);
      assert.equal(code, 2);
      assert.match(out, /^ {2}. IPv4 nat KUBE-SERVICES .*$/m);
      assert.match(out, /^ {2}. IPv4 nat KUBE-SVC-\S+ .*service default\/new/m);
      assert.deepEqual(plannedOf(...objects).out, "No changes.\n");
    });

    it("explain which rules a third party removed and added, and the planned verdict", (test) => {
      shell(`iptables -w -t nat -D ${mark}`);
      shell(`iptables -w -t nat -I KUBE-SERVICES -d ${clusterIp}/32 -j RETURN`);
      try {
        const { out } = kubeIpvs("explain", "--from", "node", "--to", `${clusterIp}:80`);
        test.diagnostic(out);
        assert.match(out, /^Packets from this node to \S+ are routed on through eth0: /);
        assert.match(out, /^ {2}Planned +Packets from this node .* over 2 of 3 .* masqueraded$/m);
        assert.deepEqual(out.match(/^ {2}(?:missing|not planned): .*$/gm), [
          `  not planned: rule nat KUBE-SERVICES -d ${clusterIp}/32 -j RETURN`,
          `  missing: rule nat ${mark}`,
        ]);
      } finally {
        shell(`iptables -w -t nat -D KUBE-SERVICES -d ${clusterIp}/32 -j RETURN`);
      }
    });

    it("name the Service that owns a contested address and port", () => namesRivals(flags));

    it("list an invalid object until it is repaired", () => listsInvalidObject(node, objects));

    it("explain without a daemon what a start would write", async (test) => {
      await node.stop("SIGTERM");
      const given = [...node.flags, ...flags];
      const { out, err } = kubeIpvs("explain", `${nodeAddress}:${nodePort}`, ...given);
      assert.match(
        err,
        /No kube-ipvs daemon on this node answers .*; planning as the daemon would at startup/,
      );
      assert.match(out, /^Packets to \S+ \(default\/web, node-port\) are balanced over 2 of 3 /);
      const plan = kubeIpvs("plan", ...given);
      test.diagnostic(plan.out);
      assert.equal(plan.code, 2, plan.err);
      assert.match(plan.out, /^ {2}~ IPv4 nat KUBE-MARK-MASQ \(0 -> 1 rules\) {2}# differs$/m);
      await node.start(flags);
      await node.stop("SIGTERM");
      assert.equal(kubeIpvs("plan", ...given).code, 0);
      const cleanup = kubeIpvs("plan", "--cleanup");
      assert.equal(cleanup.code, 2, cleanup.err);
      assert.match(cleanup.out, /^ {2}- IPv4 nat KUBE-SEP-/m);
    });
  });

  describe("userspace mode", () => {
    const flags = ["--proxy-mode=userspace"];
    let given: readonly string[] = [];

    before(() => {
      shell(`dist/kube-ipvs --cleanup ${node.flags.join(" ")}`);
      given = [...node.flags, ...flags];
    });

    it("plan the listeners and rules of a start without opening or writing any", (test) => {
      const { code, out, err } = kubeIpvs("plan", ...given);
      test.diagnostic(out);
      assert.equal(code, 2, err);
      assert.match(out, /^Listeners: 3\n/);
      assert.match(
        out,
        /^ {2}\+ TCP 0\.0\.0\.0 at a free port for 10\.96\.0\.10:80, node port 30080 {2}# missing, service default\/web:http$/m,
      );
      assert.match(out, /^ {2}~ IPv4 nat KUBE-PORTALS-HOST \(0 -> 3 rules\) {2}# missing$/m);
      assert.doesNotMatch(shell("iptables-save"), /KUBE-PORTALS/);
      const json = kubeIpvs("plan", ...given, "-o", "json");
      const { listeners } = parseJson(json.out) as { readonly listeners: readonly object[] };
      assert.deepEqual(listeners[0], {
        text: "+ TCP 0.0.0.0 at a free port for 10.96.0.11:80",
        ...{ protocol: "TCP", host: "0.0.0.0", service: "default/empty" },
        ...{ portName: "default/empty:http", addresses: ["10.96.0.11:80"], nodePort: 0 },
      });
    });

    it("observe only: log the listeners and rules without opening or writing any", async (test) => {
      // The program's own servers use other ports.
      const seen = "iptables-save; ss -Hltun | { grep -vE ':(10349|10356) ' || true; }";
      const before = shell(seen);
      await node.start([...flags, "--kube-ipvs-observe-only"]);
      const { output } = node.program;
      test.diagnostic(output);
      assert.match(output, /"Observing only: pending changes" changes=\d+ listener-open=3 /);
      assert.match(
        output,
        /"Would change" change="\+ TCP 0\.0\.0\.0 at a free port for 10\.96\.0\.10:80, node port 30080"/,
      );
      assert.doesNotMatch(kubeIpvs("services", "-o", "json").out, /"programmed": [1-9]/);
      assert.equal(withoutTimes(shell(seen)), withoutTimes(before));
      await node.stop("SIGTERM");
    });

    it("plan no changes while a daemon is serving, and all of them after it stopped", async () => {
      await node.start(flags);
      const beside = kubeIpvs("plan", ...given);
      assert.deepEqual([beside.code, beside.out], [0, "No changes.\n"], beside.err);
      const applied = plannedOf(...fresh);
      assert.equal(applied.code, 2, applied.err);
      assert.match(
        applied.out,
        /^Listeners: 1\n {2}\+ TCP \S+ .*10\.96\.0\.14:80 .*default\/new:http$/m,
      );
      assert.doesNotMatch(applied.out, /default\/web/);
      await node.stop();
      const { code, out } = kubeIpvs("plan", ...given);
      assert.equal(code, 2);
      assert.match(out, /^Listeners: 3\n/);
      assert.match(out, /^ {2}~ IPv4 nat KUBE-PORTALS-HOST \(3 -> 3 rules\) {2}# differs$/m);
    });

    it("explain which socket receives a packet, and to which endpoint it connects", async (test) => {
      const gone = kubeIpvs("explain", `${clusterIp}:80`, ...given);
      assert.equal(gone.code, 1);
      assert.match(gone.err, /in userspace mode, Services are served by the daemon's own sockets/);
      await node.start(flags);
      const { code, out, err } = kubeIpvs("explain", "--from", "node", "--to", `${clusterIp}:80`);
      test.diagnostic(out);
      assert.equal(code, 0, err);
      const lines = out.split("\n");
      assert.equal(
        lines[0],
        `Packets from this node to ${clusterIp}:80 are handled by kube-ipvs and balanced over 2 of 3 endpoints`,
      );
      assert.ok(lines.includes("  no difference"), "kernel and plan are alike");
      assert.match(out, /^ {2}nat KUBE-PORTALS-HOST +yes .* -j REDIRECT --to-ports \d+$/m);
      assert.match(
        out,
        /^ {2}endpoint .*10\.244\.1\.10:8080.*: masqueraded, it sees 10\.244\.1\.1$/m,
      );
      const [empty] = explained("svc/empty", "--from", "node");
      assert.match(
        empty?.summary ?? "",
        / are handled by kube-ipvs and reset: no endpoint accepts connections/,
      );
      shell("iptables -w -t nat -F KUBE-PORTALS-HOST");
      const [lost] = explained(`${clusterIp}:80`, "--from", "node");
      assert.match(lost?.summary ?? "", / are routed on through eth0: /);
      assert.match(differencesOf(lost)[0] ?? "", /^missing rule nat KUBE-PORTALS-HOST /);
    });

    it("explain every address of a Service: cluster, external and load-balancer IP, and node ports", async () => {
      await node.stop();
      node.apply(...objects, edge, endpointSlice({ service: "edge", endpoints: ["10.244.1.10"] }));
      await node.start(flags);
      const places = [
        ...["10.96.0.13:80", "203.0.113.7:80", "203.0.113.8:80"],
        ...[`${podGateway}:30081`, `${nodeAddress}:30081`],
      ];
      assert.deepEqual(
        explained("svc/edge", "--from", clientAddress).map(({ summary }) => summary),
        places.map(
          (place) =>
            `Packets from ${clientAddress} to ${place} are handled by kube-ipvs and balanced over 1 of 1 endpoint`,
        ),
      );
      for (const place of places) {
        const [alone] = explained(place, "--from", clientAddress);
        assert.deepEqual([alone?.service?.name, alone?.differences], ["edge", []], place);
      }
      node.apply(...objects);
    });

    it("name the Service that owns a contested address and port", () => namesRivals(flags));

    it("list an invalid object until it is repaired", () => listsInvalidObject(node, objects));

    it("plan what a clean-up would remove, and remove nothing", async (test) => {
      await node.stop("SIGTERM");
      const { code, out, err } = kubeIpvs("plan", "--cleanup");
      test.diagnostic(out);
      assert.equal(code, 2, err);
      assert.match(out, /^ {2}- IPv4 nat OUTPUT \(jump KUBE-PORTALS-HOST\) {2}# unwanted$/m);
      assert.match(out, /^ {2}- IPv4 nat KUBE-PORTALS-HOST {2}# unwanted$/m);
      assert.match(shell("iptables-save"), /KUBE-PORTALS/);
      shell(`dist/kube-ipvs --cleanup ${node.flags.join(" ")}`);
      const after = kubeIpvs("plan", "--cleanup");
      assert.deepEqual([after.code, after.out], [0, "No changes.\n"], after.err);
    });
  });
});

/** Removes the time and the counters from the output of iptables-save. */
function withoutTimes(text: string): string {
  return text.replaceAll(/^#.*\n/gm, "").replaceAll(/\[\d+:\d+\]/g, "");
}
