/**
 * Broken nodes. A seed selects breakages from a list, which is based on an operator's experience. Its author did not know
 * what the commands detect. For each breakage, one command must name the cause and a fix. After the repair, the node must
 * be healthy again. `TEST_FIRST_SEED=4711` selects other breakages, and `TEST_LONG=1` runs all.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { after, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Connection, Datagrams, openIn } from "../support/client-traffic.ts";
import { LabNode, until } from "../support/lab-node.ts";
import {
  enterNetworkNamespace,
  leaveNetworkNamespace,
  shell,
} from "../support/netns/network-namespace.ts";
import { removeNodeNetwork } from "../support/node-network.ts";
import {
  type ApiObject,
  endpointSlice,
  service,
  servicePort,
  slicePort,
} from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { ip } from "../support/records.ts";
import { runKubeIpvs } from "../support/run-kube-ipvs.ts";
import { countOf, firstSeed, seededRandom } from "../support/seeds.ts";

const pods = [
  { name: "pod-1", address: "10.244.1.10" },
  { name: "pod-2", address: "10.244.1.20" },
];
const podAddresses = pods.map(({ address }) => address);
const client = "192.168.10.1";
const nodePort = 30080;

const web = service({
  type: "NodePort",
  ports: [servicePort({ nodePort })],
});
const dns = service({
  name: "dns",
  clusterIps: ["10.96.0.53"],
  ports: [servicePort({ name: "dns", protocol: "UDP", port: 53, targetPort: 5353 })],
});
const dnsSlice = endpointSlice({
  service: "dns",
  endpoints: podAddresses,
  ports: [slicePort({ name: "dns", protocol: "UDP", port: 5353 })],
});
const webSlice = endpointSlice({ endpoints: podAddresses });
const healthy: readonly ApiObject[] = [web, webSlice, dns, dnsSlice];
const taken: readonly ApiObject[] = [
  service({ name: "taken", clusterIps: ["10.96.0.99"], ports: [servicePort()] }),
  endpointSlice({ service: "taken", endpoints: podAddresses }),
];

type Traffic = (node: LabNode) => Promise<number>;

/** The number of answered connections, out of four new ones from the client. */
function connectionsTo(host: string, port: number): Traffic {
  return async () => {
    const attempts = await openIn("client", async () =>
      Promise.all(Array.from({ length: 4 }, async () => answers(host, port))),
    );
    return attempts.filter(Boolean).length;
  };
}

async function answers(host: string, port: number): Promise<boolean> {
  const socket = connect({ host, port });
  const signal = AbortSignal.timeout(5_000);
  try {
    await once(socket, "connect", { signal });
    socket.write("name\n");
    await once(socket, "data", { signal });
    return true;
  } catch {
    return false;
  } finally {
    socket.on("error", () => {}).destroy();
  }
}

/** Uses the same client port each time, like a resolver that keeps its socket. */
const datagrams: Traffic = async () => {
  const socket = await Datagrams.open(5_300);
  const answered = await socket.ask("10.96.0.53", 53, 5_000);
  socket.close();
  return answered === "nobody" ? 0 : 4;
};

const toWeb = connectionsTo("10.96.0.10", 80);

type Action = string | ((node: LabNode) => unknown);

interface Breakage {
  readonly name: string;
  readonly damage: Action;
  readonly repair: Action;
  /** Defaults to connections from the client to the cluster IP. */
  readonly traffic?: Traffic;
  /** Number of answered connections, out of four. */
  readonly answered: number;
  readonly command: readonly string[];
  readonly cause: RegExp;
  readonly fix: RegExp;
  /** Defaults to 2, which means that something is wrong. */
  readonly exitCode?: 0;
  /** The daemon repairs the damage by itself, but the command must still name the damage afterwards. */
  readonly isRepairedAlready?: true;
}

/** Adds third-party rules and removes them again. */
function rules(...lines: readonly string[]): Pick<Breakage, "damage" | "repair"> {
  return {
    damage: lines.map((line) => `iptables -w 5 ${line}`).join("\n"),
    repair: lines.map((line) => `iptables -w 5 ${line.replace(/-I /, "-D ")}`).join("\n"),
  };
}

const doctor = ["doctor"];
const fromClient = ["explain", "--from", client, "--to", "10.96.0.10:80"];
const virtualServer = "-t 10.96.0.10:80";
const virtualServerId = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;
const realServers = podAddresses.map((address) => `-r ${address}:8080 -m`);

const breakages: readonly Breakage[] = [
  {
    name: "a hardening script drops forwarded packets",
    ...rules("-I FORWARD -j DROP"),
    answered: 0,
    command: doctor,
    cause: /FORWARD.*-j DROP/,
    fix: /remove|delete|allow|accept/i,
  },
  {
    name: "a raw rule drops a port before conntrack",
    ...rules("-t raw -I PREROUTING -p tcp --dport 80 -j DROP"),
    answered: 0,
    command: doctor,
    cause: /raw PREROUTING.*-j DROP/,
    fix: /remove|delete|allow|accept/i,
  },
  {
    name: "a host firewall has the policy DROP for INPUT",
    damage: "iptables -P INPUT DROP",
    repair: "iptables -P INPUT ACCEPT",
    answered: 0,
    command: doctor,
    cause: /INPUT.*policy|policy.*INPUT/i,
    fix: /allow|accept/i,
  },
  {
    name: "a host firewall drops a node port",
    ...rules(`-I INPUT -p tcp --dport ${nodePort} -j DROP`),
    traffic: connectionsTo("192.168.10.11", nodePort),
    answered: 0,
    command: doctor,
    cause: /INPUT.*30080.*-j DROP/,
    fix: /remove|delete|allow|accept/i,
  },
  {
    name: "a host firewall drops a port on the uplink",
    ...rules("-I INPUT -i eth0 -p tcp --dport 80 -j DROP"),
    answered: 0,
    command: doctor,
    cause: /INPUT.*-i eth0.*-j DROP/,
    fix: /remove|delete|allow|accept/i,
  },
  {
    // The ARP requests come from a router's own address. A strict rp_filter would drop requests from the client's
    // address without counting them.
    name: "packets arrive asymmetrically, and rp_filter is strict",
    damage: `
      ip link add eth1 type veth peer name eth1 netns client
      ip addr add 192.168.11.11/24 dev eth1; ip link set eth1 up
      ip -n client addr add 192.168.11.1/24 dev eth1; ip -n client link set eth1 up
      ip -n client route replace 10.96.0.0/16 via 192.168.11.11 src ${client}
      hardware=$(ip -br link show eth1 | awk '{print $3}')
      ip -n client neigh replace 192.168.11.11 lladdr $hardware dev eth1 nud permanent
      sysctl -qw net.ipv4.conf.all.rp_filter=1`,
    repair: `
      ip -n client route replace 10.96.0.0/16 via 192.168.10.11; ip link del eth1
      sysctl -qw net.ipv4.conf.all.rp_filter=0`,
    answered: 0,
    command: doctor,
    cause: /rp_filter|strict/,
    fix: /rp_filter.*[=:to ]+(?:0|2)|loose/,
  },
  {
    name: "a route to a pod is a blackhole",
    damage: "ip route del 10.244.1.20/32; ip route add blackhole 10.244.1.20/32",
    repair:
      "ip route del blackhole 10.244.1.20; ip route add 10.244.1.20/32 dev veth2 src 10.244.1.1",
    answered: 2,
    command: doctor,
    cause: /no route to 10\.244\.1\.20, or the route rejects packets/,
    fix: /route|network plugin|CNI/i,
  },
  {
    name: "the link to a pod is down",
    damage: "ip link set veth2 down",
    repair: "ip link set veth2 up; ip route add 10.244.1.20/32 dev veth2 src 10.244.1.1",
    answered: 2,
    command: [...fromClient, "--probe"],
    cause: /10\.244\.1\.20:8080.*(?:no answer|timed out|unreachable)/i,
    fix: /route|network plugin|CNI/i,
  },
  {
    name: "a routing rule drops the pods' answers",
    damage:
      "ip rule add from 10.244.1.0/24 lookup 100 pref 100; ip route add blackhole default table 100",
    repair: "ip rule del pref 100; ip route flush table 100",
    answered: 0,
    command: fromClient,
    cause: /routing rule drops its replies \(ip rule/,
    fix: /rule|route/,
  },
  {
    name: "an operator deleted the real servers",
    damage: realServers
      .map((server) => `ipvsadm -d ${virtualServer} ${server.slice(0, -3)}`)
      .join("\n"),
    repair: realServers.map((server) => `ipvsadm -a ${virtualServer} ${server}`).join("\n"),
    answered: 0,
    command: ["services", "web"],
    cause: /10\.244\.1\.10:8080.*drifted/,
    fix: /third party|repair|verification/i,
  },
  {
    name: "an operator deleted the virtual server",
    damage: `ipvsadm -D ${virtualServer}`,
    repair: [
      `ipvsadm -A ${virtualServer} -s rr`,
      ...realServers.map((server) => `ipvsadm -a ${virtualServer} ${server}`),
    ].join("\n"),
    answered: 0,
    command: fromClient,
    cause: /missing: virtual server TCP 10\.96\.0\.10:80/,
    fix: /third party|repair|verification/i,
  },
  {
    name: "an operator set the weights to 0 for maintenance",
    damage: realServers.map((server) => `ipvsadm -e ${virtualServer} ${server} -w 0`).join("\n"),
    repair: realServers.map((server) => `ipvsadm -e ${virtualServer} ${server} -w 1`).join("\n"),
    answered: 0,
    command: fromClient,
    cause: /10\.244\.1\.10:8080.*weight 0|weight.* 1 .*0/,
    fix: /third party|repair|verification/i,
  },
  {
    name: "an operator deleted a set entry, which the daemon repairs within seconds",
    damage: async () => {
      shell("ipset del KUBE-CLUSTER-IP 10.96.0.10,tcp:80");
      const members = async (): Promise<string> => shell("ipset list KUBE-CLUSTER-IP");
      await until(async () => (await members()).includes("10.96.0.10,tcp:80"), patienceMs, members);
    },
    repair: "true",
    answered: 4,
    command: ["status"],
    cause: /Drift .*KUBE-CLUSTER-IP 10\.96\.0\.10,tcp:80 \(repair\)/,
    fix: /repair/,
    isRepairedAlready: true,
    exitCode: 0,
  },
  {
    name: "an operator deleted kube-ipvs0, which the daemon repairs at once",
    damage: async () => {
      shell("ip link del kube-ipvs0");
      const addresses = async (): Promise<string> =>
        shell("ip -br addr show kube-ipvs0 2> /dev/null || true");
      await until(async () => (await addresses()).includes("10.96.0.10/32"), patienceMs, addresses);
    },
    repair: "true",
    answered: 4,
    command: ["status"],
    cause: /Drift .*kube-ipvs0 \(repair\)/,
    fix: /repair/,
    isRepairedAlready: true,
    exitCode: 0,
  },
  {
    name: "forwarding is disabled",
    damage: "sysctl -qw net.ipv4.ip_forward=0",
    repair: "sysctl -qw net.ipv4.ip_forward=1",
    answered: 0,
    command: doctor,
    cause: /ip_forward is 0/,
    fix: /ip_forward=1/,
  },
  {
    name: "IPVS does not use conntrack",
    damage: "sysctl -qw net.ipv4.vs.conntrack=0",
    repair: "sysctl -qw net.ipv4.vs.conntrack=1",
    answered: 4,
    command: doctor,
    cause: /vs\.conntrack is 0/,
    fix: /vs\.conntrack=1/,
  },
  {
    name: "the conntrack table is full",
    damage: async () => {
      held = await Promise.all(
        Array.from({ length: 8 }, async () => Connection.open("10.96.0.10", 80, "echo")),
      );
      for (const connection of held) await connection.receives(1);
      setConntrackLimit("8");
    },
    repair: () => {
      setConntrackLimit(conntrackLimit ?? "");
      for (const connection of held) connection.reset();
    },
    answered: 0,
    command: doctor,
    cause: /\d+ of 8 entries/,
    fix: /nf_conntrack_max|conntrack\.(?:maxPerCore|min)/,
  },
  {
    name: "an annotation names a scheduler that does not exist",
    damage: (node) =>
      node.apply(
        service({
          type: "NodePort",
          ports: [servicePort({ nodePort })],
          metadata: { annotations: { "kube-ipvs.io/scheduler": "bestfit" } },
        }),
        ...healthy.slice(1),
      ),
    repair: (node) => node.apply(...healthy),
    answered: 4,
    command: ["status"],
    cause: /bestfit/,
    fix: /default\/web.*(?:rr|use|one of|choose|correct|allow)/,
    exitCode: 0,
  },
  {
    name: "kube-proxy was started next to kube-ipvs",
    damage: async () => {
      shell("cp $(command -v sleep) /tmp/kube-proxy");
      rival = execFile("/tmp/kube-proxy", ["600"]);
      await pause(200);
    },
    repair: async () => {
      rival?.kill("SIGKILL");
      await pause(200);
    },
    answered: 4,
    command: doctor,
    cause: /kube-proxy is running|kube-proxy runs|kube-proxy.*\(process \d+\)/,
    fix: /stop/i,
  },
  {
    name: "an endpoint died, and its EndpointSlice remains",
    damage: "kill -9 $(ip netns pids pod-2)",
    repair: (node) => node.startPod(pods[1] ?? assert.fail()),
    answered: 2,
    command: [...fromClient, "--probe"],
    cause: /10\.244\.1\.20:8080.*refused/i,
    fix: /check|listen|port/i,
  },
  {
    name: "a slice names a pod that does not exist",
    damage: async (node) => {
      node.apply(web, endpointSlice({ endpoints: ["10.244.1.10", "10.244.1.77"] }), dns, dnsSlice);
      await node.hasWeights(virtualServerId, "10.244.1.77 1, pod-1 1");
    },
    repair: async (node) => {
      node.apply(...healthy);
      await node.hasWeights(virtualServerId, "pod-1 1, pod-2 1");
    },
    answered: 2,
    command: [...fromClient, "--probe"],
    cause: /10\.244\.1\.77:8080.*(?:no answer|timed out|unreachable|refused)/i,
    fix: /check|pod|route/i,
  },
  {
    name: "a slice has the wrong port",
    damage: async (node) => {
      node.apply(
        web,
        endpointSlice({ endpoints: podAddresses, ports: [slicePort({ port: 8081 })] }),
        dns,
        dnsSlice,
      );
      await portIs(8081);
    },
    repair: async (node) => {
      node.apply(...healthy);
      await portIs(8080);
    },
    answered: 0,
    command: [...fromClient, "--probe"],
    cause: /10\.244\.1\.10:8081.*refused/i,
    fix: /check|listen|targetPort/i,
  },
  {
    name: "a Service has no endpoints",
    damage: async (node) => {
      node.apply(web, endpointSlice({ endpoints: [] }), dns, dnsSlice);
      await node.hasWeights(virtualServerId, "");
    },
    repair: async (node) => {
      node.apply(...healthy);
      await node.hasWeights(virtualServerId, "pod-1 1, pod-2 1");
    },
    answered: 0,
    command: fromClient,
    cause: /no real server that accepts connections/,
    fix: /selector|EndpointSlice|ready/i,
  },
  {
    name: "a pod's neighbor entry has the wrong address",
    damage: "ip neigh replace 10.244.1.20 lladdr 02:00:00:00:00:99 dev veth2 nud permanent",
    repair: "ip neigh del 10.244.1.20 dev veth2",
    answered: 2,
    command: [...fromClient, "--probe"],
    cause: /10\.244\.1\.20:8080.*(?:no answer|timed out|unreachable)/i,
    fix: /check|network plugin|route/i,
  },
  {
    name: "the kernel's own ports overlap the node ports",
    damage: "sysctl -qw net.ipv4.ip_local_port_range='1024 60999'",
    repair: "sysctl -qw net.ipv4.ip_local_port_range='32768 60999'",
    answered: 4,
    command: doctor,
    cause: /ip_local_port_range.*(?:1024|30080)/,
    fix: /ip_local_port_range=|ip_local_reserved_ports/,
  },
  {
    name: "the manifest folder is missing",
    damage: async ({ flags }) => {
      shell(`mv ${folderIn(flags)} ${folderIn(flags)}.gone`);
      await statusIs(2);
    },
    repair: async ({ flags }) => {
      shell(`mv ${folderIn(flags)}.gone ${folderIn(flags)}`);
      await statusIs(0);
    },
    answered: 4,
    command: ["status"],
    cause: /kube-ipvs-lab-.*(?:ENOENT|does not exist|cannot be read)|Cannot read.*kube-ipvs-lab-/,
    fix: /create|restore|folder/i,
  },
  {
    name: "the daemon hangs",
    damage: ({ program: daemon }) => daemon.kill("SIGSTOP"),
    repair: ({ program: daemon }) => daemon.kill("SIGCONT"),
    answered: 4,
    command: ["status"],
    cause: /process \d+.*does not answer/,
    fix: /restart|stopped|SIGCONT|log/i,
  },
  {
    name: "a stale conntrack entry sends a client's datagrams to an address that no longer exists",
    damage: async (node) => {
      const rule = "PREROUTING -d 10.96.0.53 -p udp --dport 53 -j DNAT --to 10.244.1.77:5353";
      shell(`iptables -t nat -I ${rule}`);
      await datagrams(node);
      shell(`iptables -t nat -D ${rule}`);
    },
    repair: "conntrack -D -p udp --orig-dst 10.96.0.53",
    traffic: datagrams,
    answered: 0,
    command: ["explain", "--from", client, "--to", "10.96.0.53:53/udp"],
    cause: /10\.244\.1\.77:5353.*(?:stale|not an endpoint|no endpoint)/,
    fix: /conntrack -D/,
  },
  {
    name: "other software translates the cluster IP",
    ...rules("-t nat -I PREROUTING -d 10.96.0.10 -p tcp --dport 80 -j DNAT --to 192.168.10.99:9"),
    answered: 0,
    command: fromClient,
    cause: /DNAT.*192\.168\.10\.99/,
    fix: /remove|delete/i,
  },
  {
    name: "rules of kube-proxy's iptables mode remain",
    damage: `iptables -t nat -N KUBE-SVC-NPX46M4PTMTKRN6Y; iptables -t nat -N KUBE-SEP-X7YVNDQVLDVAM3TI
      iptables -t nat -A KUBE-SEP-X7YVNDQVLDVAM3TI -p tcp -j DNAT --to 10.244.1.77:8080
      iptables -t nat -A KUBE-SVC-NPX46M4PTMTKRN6Y -j KUBE-SEP-X7YVNDQVLDVAM3TI
      iptables -t nat -I PREROUTING -d 10.96.0.10 -p tcp --dport 80 -j KUBE-SVC-NPX46M4PTMTKRN6Y`,
    repair: `iptables -t nat -D PREROUTING -d 10.96.0.10 -p tcp --dport 80 -j KUBE-SVC-NPX46M4PTMTKRN6Y
      iptables -t nat -F KUBE-SVC-NPX46M4PTMTKRN6Y; iptables -t nat -X KUBE-SVC-NPX46M4PTMTKRN6Y
      iptables -t nat -F KUBE-SEP-X7YVNDQVLDVAM3TI; iptables -t nat -X KUBE-SEP-X7YVNDQVLDVAM3TI`,
    answered: 0,
    command: doctor,
    cause: /iptables mode left \d chain/,
    fix: /removeLeftovers|--cleanup/,
  },
  {
    name: "the cluster IP is also an address on another link",
    damage: "ip addr add 10.96.0.10/32 dev eth0",
    repair: "ip addr del 10.96.0.10/32 dev eth0",
    answered: 4,
    command: doctor,
    cause: /10\.96\.0\.10 is an address of this node/,
    fix: /remove|ip addr(?:ess)? del/i,
  },
  {
    name: "a mangle rule drops packets to a pod",
    ...rules("-t mangle -I POSTROUTING -d 10.244.1.20 -j DROP"),
    answered: 2,
    command: doctor,
    cause: /mangle POSTROUTING.*-j DROP/,
    fix: /remove|delete|allow|accept/i,
  },
  {
    name: "a host firewall drops packets of established connections",
    ...rules("-I INPUT -p tcp -m conntrack --ctstate ESTABLISHED -j DROP"),
    answered: 0,
    command: doctor,
    cause: /INPUT.*ESTABLISHED -j DROP/,
    fix: /remove|delete|allow|accept/i,
  },
  {
    name: "packets to the client have no route",
    damage: `ip route add prohibit ${client}/32`,
    repair: `ip route del prohibit ${client}/32`,
    answered: 0,
    command: fromClient,
    cause: /no route to 192\.168\.10\.1|route rejects/,
    fix: /Correct the route/,
  },
  {
    name: "an administrator flushed the nat table",
    damage: "iptables-save -t nat > /run/nat.rules; iptables -t nat -F",
    repair: "iptables-restore -w 5 < /run/nat.rules",
    answered: 4,
    command: fromClient,
    cause: /missing: rule nat PREROUTING .*-j KUBE-SERVICES/,
    fix: /third party|repair|verification/i,
  },
  {
    name: "a tunnel has a larger MTU than the link below",
    damage: `
      ip link add flannel.1 type vxlan id 1 dev eth0 dstport 8472
      ip link set flannel.1 mtu 1450 up; ip link set eth0 mtu 1400`,
    repair: "ip link set eth0 mtu 1500; ip link del flannel.1",
    answered: 4,
    command: doctor,
    cause: /flannel\.1 \(vxlan\) have up to 1500 bytes/,
    fix: /ip link set flannel\.1 mtu 1350/,
  },
  {
    name: "node-local DNS has the DNS Service's cluster IP",
    damage: "ip link add nodelocaldns type dummy; ip addr add 10.96.0.53/32 dev nodelocaldns",
    repair: "ip link del nodelocaldns",
    answered: 4,
    command: doctor,
    cause: /node-local DNS listens at 10\.96\.0\.53/,
    fix: /unboundAddresses: \[10\.96\.0\.53\]/,
  },
  {
    name: "other software has a virtual server at a new Service's address",
    damage: async (node) => {
      shell("ipvsadm -A -t 10.96.0.99:80 -s rr");
      node.apply(...healthy, ...taken);
      await statusIs(2);
    },
    repair: async (node) => {
      shell("ipvsadm -D -t 10.96.0.99:80");
      node.apply(...healthy);
      await statusIs(0);
    },
    answered: 4,
    command: ["status"],
    cause: /TCP 10\.96\.0\.99:80 is a virtual server of other software/,
    fix: /ipvsadm -D/,
  },
];

let held: readonly Connection[] = [];
let conntrackLimit: string | undefined;
let rival: ReturnType<typeof execFile> | undefined;

/** The limit belongs to the kernel's first network namespace. */
function setConntrackLimit(limit: string): void {
  leaveNetworkNamespace();
  conntrackLimit ??= shell("sysctl -n net.netfilter.nf_conntrack_max").trim();
  shell(`sysctl -qw net.netfilter.nf_conntrack_max=${limit}`);
  enterNetworkNamespace("node");
}

/** Waits until the cluster IP's real servers have only this port. */
async function portIs(port: number): Promise<void> {
  const servers = async (): Promise<string> => shell(`ipvsadm -Ln ${virtualServer}`);
  const ports = async (): Promise<string> =>
    [...(await servers()).matchAll(/-> \S+:(808\d)/g)].map(([, found]) => found).join();
  await until(async () => (await ports()) === `${port},${port}`, patienceMs, servers);
}

/** The folder is read at least every ten seconds. */
async function statusIs(code: number): Promise<void> {
  const status = async (): Promise<string> => (await runKubeIpvs("status")).out;
  await until(async () => (await runKubeIpvs("status")).code === code, patienceMs, status);
}

function folderIn(flags: readonly string[]): string {
  return flags.find((flag) => flag.startsWith("--manifests="))?.split("=")[1] ?? "";
}

interface Answer {
  readonly code: number | null;
  /** The doctor's findings that are not ok, or the whole output of another command. */
  readonly items: readonly string[];
}

async function ask(command: readonly string[]): Promise<Answer> {
  const { code, out, err } = await runKubeIpvs(...command);
  if (command[0] !== "doctor") return { code, items: [out + err] };
  const findings = out.split(/^(?=\w+ +[\w-]+ {2})/m);
  return { code, items: findings.filter((finding) => /^(?:warn|fail|unknown) /.test(finding)) };
}

async function act(action: Action, node: LabNode): Promise<void> {
  if (typeof action === "string") shell(action);
  else await action(node);
}

function drawn(): readonly Breakage[] {
  const random = seededRandom(firstSeed);
  const order = breakages.map((breakage) => ({ breakage, place: random() }));
  const sorted = order.toSorted((one, other) => one.place - other.place);
  const count = countOf({ short: 12, long: breakages.length });
  return sorted.slice(0, count).map(({ breakage }) => breakage);
}

describe(`a broken node is diagnosed by one command (seed ${firstSeed})`, () => {
  let built: LabNode | undefined;
  /** Each command's output on the healthy node. */
  const healthyAnswers = new Map<string, Answer>();

  async function healthyNode(): Promise<LabNode> {
    if (built !== undefined) return built;
    built = await LabNode.build(pods);
    built.apply(...healthy);
    // kube-ipvs would repair third-party changes, but here the damage must persist.
    await built.start([
      "--ipvs-sync-period=1h",
      "--kube-ipvs-verification-period=1h",
      "--kube-ipvs-rule-check-period=1h",
      "--kube-ipvs-tcp-drain-deadline=1s",
    ]);
    return built;
  }

  async function discard(): Promise<void> {
    await built?.destroy();
    if (built !== undefined) removeNodeNetwork(pods);
    built = undefined;
  }
  after(discard);

  for (const { traffic = toWeb, ...breakage } of drawn()) {
    it(breakage.name, async (test) => {
      const { command, cause, fix } = breakage;
      const node = await healthyNode();
      const key = command.join(" ");
      const atFirst = healthyAnswers.get(key) ?? (await ask(command));
      healthyAnswers.set(key, atFirst);
      try {
        assert.deepEqual(
          atFirst.items.filter((item) => cause.test(item)),
          [],
          "named on a healthy node",
        );
        await act(breakage.damage, node);
        const count = await traffic(node);
        const { code, items } = await ask(command);
        test.diagnostic(`kube-ipvs ${key}\n${items.join("")}`);
        assert.equal(count, breakage.answered, "connections that were answered");
        const named = items.filter((item) => cause.test(item));
        assert.notEqual(named.length, 0, `not named: ${cause}`);
        assert.ok(
          named.some((item) => fix.test(item)),
          `no remedy: ${fix}`,
        );
        assert.equal(code, breakage.exitCode ?? 2, "exit code");
        await act(breakage.repair, node);
        shell("conntrack -F 2> /dev/null || true");
        assert.equal(await traffic(node), 4, "connections that were answered after the repair");
        const atLast = await ask(command);
        if (breakage.isRepairedAlready !== true) {
          assert.deepEqual(
            atLast.items.filter((item) => cause.test(item)),
            [],
          );
        }
        assert.equal(atLast.code, atFirst.code, atLast.items.join(""));
        const status = await runKubeIpvs("status");
        assert.equal(status.code, 0, status.out);
      } catch (error) {
        await (async () => act(breakage.repair, node))().catch(() => {});
        await discard();
        throw error;
      }
    });
  }
});
