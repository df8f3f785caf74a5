/**
 * Tests iptables mode on a real kernel: recorded states through the composition root; packets, kills and restarts; and
 * changes between all three modes under traffic, with the built program and real pods.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { after, afterEach, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { loadConfig } from "../../src/config/load-config.ts";
import { configurationText } from "../golden/configuration.ts";
import { nodeSetUp } from "../golden/node-set-up.ts";
import type { Scenario } from "../golden/scenario.ts";
import { recordedForm } from "../golden-iptables/expected-form.ts";
import { readScenario } from "../golden-iptables/recorded.ts";
import { askName, Connection, Datagrams } from "../support/client-traffic.ts";
import { startInProcess } from "../support/in-process.ts";
import { LabNode, until } from "../support/lab-node.ts";
import { MemorySource } from "../support/memory-source.ts";
import { shell, withNetworkNamespace } from "../support/netns/network-namespace.ts";
import { clientAddress, nodeAddress } from "../support/node-network.ts";
import { type ApiObject, endpoint, endpointSlice, service } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import {
  rejectInput,
  rejectingPath,
  rejectNothing,
  wrapIptablesRestore,
} from "../support/rejecting-restore.ts";

const scenarios = [
  "clusterip-udp-affinity",
  "dual-stack-lb",
  "nodeport-addresses-v4-only",
  "lb-source-ranges-local",
  "step-basic-endpoints",
] as const;

async function differencesOf(scenario: Scenario): Promise<readonly string[]> {
  const source = new MemorySource();
  const { config } = loadConfig(new Map([["config", ["scenario.yaml"]]]), {
    hostname: () => "ignored",
    readFile: () => configurationText(scenario.config),
  });
  source.apply(...(scenario.steps[0]?.apply ?? []));
  const daemon = await startInProcess({ config, source });
  const differences: string[] = [];
  try {
    for (const [index, step] of scenario.steps.entries()) {
      source.delete(...step.delete);
      source.apply(...step.apply);
      await daemon.settled();
      for (const file of ["iptables", "ip6tables"] as const) {
        const saved = recordedForm(execFileSync(`${file}-save`, { encoding: "utf8" }));
        const recorded = recordedForm(step.recorded[file] ?? "");
        if (saved !== recorded)
          differences.push(`step ${index} ${file}\n${lines(recorded, saved)}`);
      }
      const localnet = /route_localnet = (\d)/.exec(step.recorded.sysctl ?? "")?.[1];
      assert.equal(readFileSync("/proc/sys/net/ipv4/conf/all/route_localnet", "utf8")[0], localnet);
    }
  } finally {
    await daemon.stop();
  }
  return differences;
}

function lines(recorded: string, saved: string): string {
  const [wanted, there] = [recorded.split("\n"), saved.split("\n")];
  return [
    ...wanted.filter((line) => !there.includes(line)).map((line) => `- ${line}`),
    ...there.filter((line) => !wanted.includes(line)).map((line) => `+ ${line}`),
  ].join("\n");
}

describe("recorded states of iptables mode", () => {
  for (const name of scenarios) {
    it(name, async () => {
      const scenario = readScenario(name);
      await withNetworkNamespace("golden", [...nodeSetUp, ...scenario.pre], async () => {
        assert.deepEqual(await differencesOf(scenario), []);
      });
    });
  }
});

const pods = [
  { name: "pod-1", address: "10.244.1.10" },
  { name: "pod-2", address: "10.244.1.20" },
];
const clusterIp = "10.96.0.10";
const nodePort = 30_080;
const flags = ["--proxy-mode=iptables", "--iptables-min-sync-period=0s"];

function web(spec: Readonly<Record<string, unknown>> = {}): ApiObject {
  const port = { name: "http", protocol: "TCP", port: 80, nodePort, targetPort: 8080 };
  return service({ type: "NodePort", ports: [port], spec });
}

function webSlice(...addresses: readonly string[]): ApiObject {
  return endpointSlice({
    name: "web-a",
    service: "web",
    endpoints: addresses.map((address) => endpoint(address, { nodeName: "node-1" })),
  });
}

function dns(...addresses: readonly string[]): readonly ApiObject[] {
  return dnsWith({}, ...addresses);
}

function dnsWith(
  overlay: Parameters<typeof service>[0] & { readonly nodePort?: number },
  ...addresses: readonly string[]
): readonly ApiObject[] {
  const { nodePort: number, ...rest } = overlay;
  const atNode = number === undefined ? {} : { nodePort: number };
  const port = { name: "dns", protocol: "UDP", port: 53, targetPort: 5353, ...atNode };
  const ports = [{ name: "dns", protocol: "UDP", port: 5353 }];
  const endpoints = addresses.map((address) => endpoint(address, { nodeName: "node-1" }));
  return [
    service({ name: "dns", clusterIps: ["10.96.0.11"], ports: [port], ...rest }),
    endpointSlice({ name: "dns-a", service: "dns", endpoints, ports }),
  ];
}

/** Open connections to a cluster IP and a node port that are used continuously. */
class Standing {
  /**
   * Each connection has its own source port outside the client's narrow range. If one client address and port reach the
   * same real server through two virtual servers, IPVS sends all answers to the later connection.
   */
  static #nextPort = 41_000;
  static readonly #open = new Set<Standing>();
  readonly #connections: readonly Connection[];
  readonly #traffic: Promise<unknown>;
  #isOver = false;

  private constructor(connections: readonly Connection[]) {
    this.#connections = connections;
    this.#traffic = Promise.all(connections.map((one) => this.#use(one)));
    // A broken connection is reported at the end.
    this.#traffic.catch(() => {});
  }

  static async open(): Promise<Standing> {
    const places = [
      [clusterIp, 80],
      [nodeAddress, nodePort],
    ] as const;
    const connections: Connection[] = [];
    for (const [address, port] of [...places, ...places]) {
      const connection = await Connection.open(address, port, "echo", Standing.#nextPort++);
      await connection.name();
      connections.push(connection);
    }
    const standing = new Standing(connections);
    Standing.#open.add(standing);
    return standing;
  }

  /** Closes all connections. Rejects if one broke. */
  async endAll(): Promise<void> {
    this.#isOver = true;
    Standing.#open.delete(this);
    try {
      await this.#traffic;
    } finally {
      for (const connection of this.#connections) connection.reset();
    }
  }

  /**
   * Closes connections that a failed test left open, because the removal of IPVS mode's leftovers and the end of this
   * process wait for them.
   */
  static async endAllOpen(): Promise<void> {
    for (const standing of Standing.#open) await standing.endAll().catch(() => {});
  }

  async #use(connection: Connection): Promise<void> {
    for (let count = 0; !this.#isOver; count += 1) {
      await connection.ping(`${count}.`);
      await pause(50);
    }
    await connection.ping("last");
  }
}

describe("iptables mode", () => {
  let node: LabNode;

  before(async () => {
    node = await LabNode.build(pods);
    // IPVS mode sets this sysctl, but in iptables mode kube-proxy leaves it to the node.
    shell("sysctl -qw net.ipv4.ip_forward=1");
    // The node's gateway is the client, so redirects would exhaust the kernel's limit on ICMP messages to one host.
    shell("sysctl -qw net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.eth0.send_redirects=0");
    node.apply(web(), webSlice("10.244.1.10", "10.244.1.20"), ...dns("10.244.1.10"));
    await node.start(flags);
  });
  after(() => node.destroy());

  async function eventually(what: string, isSo: () => Promise<boolean>): Promise<void> {
    await until(isSo, patienceMs, async () => `${what}\n${node.program.output}`);
  }

  /**
   * The pods that answer 30 connections. The probability that one of two pods answers all of them is one in half a
   * billion.
   */
  async function answering(address: string, port: number): Promise<string> {
    const names = new Set<string>();
    for (let index = 0; index < 30; index += 1) names.add(await askName(address, port));
    return [...names].sort().join(" ");
  }

  /** Waits until a new connection to the Service is refused. The filter table is written before the nat table. */
  async function refusesClients(): Promise<void> {
    await eventually("a rule that rejects", async () =>
      /has no endpoints/.test(shell("iptables-save -t filter")),
    );
    await eventually(
      "no endpoint in nat",
      async () =>
        !/-A KUBE-SERVICES .*default\/web:http cluster IP/.test(shell("iptables-save -t nat")),
    );
    await assert.rejects(askName(clusterIp, 80), /ECONNREFUSED/);
    await assert.rejects(askName(nodeAddress, nodePort), /ECONNREFUSED/);
  }

  it("distributes connections to a cluster IP and a node port over both pods", async () => {
    assert.equal(await answering(clusterIp, 80), "pod-1 pod-2");
    assert.equal(await answering(nodeAddress, nodePort), "pod-1 pod-2");
  });

  it("reports its mode on the metrics port and in the status", async () => {
    assert.equal(await (await fetch("http://127.0.0.1:10249/proxyMode")).text(), "iptables");
    assert.ok(
      (await node.metric(
        'kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="nat"}',
      )) > 10,
    );
  });

  it("keeps a client on its pod with session affinity, and refuses connections without pods", async () => {
    const sessionAffinityConfig = { clientIP: { timeoutSeconds: 60 } };
    node.apply(
      web({ sessionAffinity: "ClientIP", sessionAffinityConfig }),
      webSlice("10.244.1.10", "10.244.1.20"),
      ...dns("10.244.1.10"),
    );
    await eventually("affinity", async () =>
      / --rcheck --seconds 60 /.test(shell("iptables-save -t nat")),
    );
    assert.match(await answering(clusterIp, 80), /^pod-[12]$/);
    node.apply(web(), webSlice(), ...dns("10.244.1.10"));
    await refusesClients();
  });

  it("sends a UDP client that keeps its source port to the current pod", async () => {
    const client = await Datagrams.open(20_001);
    try {
      assert.equal(await client.ask("10.96.0.11", 53), "pod-1");
      node.apply(web(), webSlice("10.244.1.10", "10.244.1.20"), ...dns("10.244.1.20"));
      await eventually(
        "the other pod",
        async () => (await client.ask("10.96.0.11", 53, 200)) === "pod-2",
      );
    } finally {
      client.close();
    }
  });

  it("sends a UDP client on the node to the current pod for every loopback address", async () => {
    const nodePort = 30_054;
    const client = await Datagrams.openHere(20_005);
    try {
      for (const [pod, address] of [
        ["pod-1", "10.244.1.10"],
        ["pod-2", "10.244.1.20"],
      ] as const) {
        node.apply(web(), ...dnsWith({ type: "NodePort", nodePort }, address));
        await eventually(pod, async () => (await client.ask("127.0.0.2", nodePort, 200)) === pod);
      }
    } finally {
      client.close();
      node.apply(web(), webSlice("10.244.1.10", "10.244.1.20"), ...dns("10.244.1.20"));
    }
  });

  it("ends UDP flows through an address that the pod's Service lost", async () => {
    const all = {
      ...{ type: "LoadBalancer", nodePort: 30_053 },
      spec: { externalIPs: ["10.96.0.111"] },
      status: { loadBalancer: { ingress: [{ ip: "10.96.0.112" }] } },
    };
    const steps = [
      { address: "10.96.0.112", port: 53, lost: { ...all, status: {} } },
      { address: "10.96.0.111", port: 53, lost: { ...all, status: {}, spec: {} } },
      { address: nodeAddress, port: 30_053, lost: {} },
      { address: "10.96.0.11", port: 53, lost: { clusterIps: ["10.96.0.99"] } },
    ];
    node.apply(web(), ...dnsWith(all, "10.244.1.10"));
    const clients: Datagrams[] = [];
    for (const [index, { address, port }] of steps.entries()) {
      const client = await Datagrams.open(20_100 + index);
      clients.push(client);
      await eventually(address, async () => (await client.ask(address, port, 200)) === "pod-1");
    }
    for (const [index, { address, port, lost }] of steps.entries()) {
      node.apply(web(), ...dnsWith(lost, "10.244.1.10"));
      await eventually(`nobody at ${address}`, async () => {
        return (await clients[index]?.ask(address, port, 200)) === "nobody";
      });
      const [, ...kept] = steps.slice(index);
      for (const [ahead, stays] of kept.entries()) {
        assert.equal(
          await clients[index + 1 + ahead]?.ask(stays.address, stays.port),
          "pod-1",
          stays.address,
        );
      }
      const tracked = shell("conntrack -L -p udp 2> /dev/null");
      assert.doesNotMatch(tracked, new RegExp(`dst=${address} .*dport=${port} .*src=10\\.244`));
    }
    for (const client of clients) client.close();
    node.apply(web(), webSlice("10.244.1.10", "10.244.1.20"), ...dns("10.244.1.20"));
  });

  it("serves a UDP client that sent packets while the rules were missing", async () => {
    const client = await Datagrams.open(20_003);
    await eventually("an answer", async () => {
      return (await client.ask("10.96.0.11", 53, 500)) === "pod-2";
    });
    shell("iptables -w -t nat -F KUBE-SERVICES; conntrack -D -p udp 2> /dev/null");
    assert.equal(await client.ask("10.96.0.11", 53, 100), "nobody");
    await eventually("an answer", async () => {
      return (await client.ask("10.96.0.11", 53, 500)) === "pod-2";
    });
    client.close();
  });

  it("restarts after a kill without writing, and repairs flushed tables", async () => {
    const before = recordedForm(shell("iptables-save"));
    await node.stop();
    assert.equal(await answering(clusterIp, 80), "pod-1 pod-2");
    await node.start(flags);
    await node.program.prints(/"First sync completed".* changes=0 /);
    shell("iptables -t nat -F; iptables -t mangle -X");
    await eventually("rules again", async () => recordedForm(shell("iptables-save")) === before);
    assert.match(shell("iptables-save -t mangle"), /^:KUBE-PROXY-CANARY /m);
  });

  describe("mode changes under traffic", () => {
    const ipvs = ["--proxy-mode=ipvs"];
    const userspace = ["--proxy-mode=userspace"];
    const ipvsKept =
      /"Keeping leftovers of IPVS mode until their connections end" virtualServers=\d/;
    const ipvsRemoved = /"Removed leftovers of IPVS mode"/;
    const rulesRemoved = /"Removed leftover iptables rules" .*modes="?iptables/;
    const portalsRemoved = /"Removed leftover iptables rules" .*modes="?userspace/;

    /** kube-ipvs's chains, and IPVS mode's other objects if they exist. */
    function left(): string {
      const chains = ["iptables-save", "ip6tables-save"].flatMap(
        (save) => shell(save).match(/^:KUBE-\S+/gm) ?? [],
      );
      const names = chains.map((chain) => chain.replace(/^:|-[A-Z2-7]{16}$/g, ""));
      const others = [
        ...(shell("ipset list -n").match(/^KUBE-\S+/gm) ?? []).slice(0, 1),
        ...(shell("ipvsadm -Sn").match(/^-A /gm) ?? []).slice(0, 1),
        ...(/kube-ipvs0/.exec(shell("ip link show")) ?? []),
      ];
      return [...new Set([...names, ...others])].sort().join(" ");
    }

    async function change(
      to: readonly string[],
      signal: NodeJS.Signals,
      command: readonly string[] = [],
    ): Promise<void> {
      await node.stop(signal);
      await node.start(to, command);
    }

    const modeChains = {
      ipvs:
        "-A  KUBE-FIREWALL KUBE-FORWARD KUBE-IPVS-FILTER KUBE-IPVS-OUT-FILTER KUBE-LOAD-BALANCER KUBE-LOOP-BACK KUBE-MARK-MASQ " +
        "KUBE-NODE-PORT KUBE-POSTROUTING KUBE-PROXY-FIREWALL KUBE-SERVICES KUBE-SOURCE-RANGES-FIREWALL kube-ipvs0",
      iptables:
        "KUBE-EXT KUBE-EXTERNAL-SERVICES KUBE-FIREWALL KUBE-FORWARD KUBE-MARK-MASQ KUBE-NODEPORTS KUBE-POSTROUTING " +
        "KUBE-PROXY-CANARY KUBE-PROXY-FIREWALL KUBE-SEP KUBE-SERVICES KUBE-SVC",
      userspace:
        "KUBE-FIREWALL KUBE-NODEPORT-CONTAINER KUBE-NODEPORT-HOST KUBE-NODEPORT-NON-LOCAL KUBE-PORTALS-CONTAINER " +
        "KUBE-PORTALS-HOST",
    };

    afterEach(() => Standing.endAllOpen());
    before(() => {
      node.apply(web(), webSlice("10.244.1.10", "10.244.1.20"), ...dns("10.244.1.20"));
      // The port range is so small that connections in the new mode use source ports for which IPVS still has entries.
      const ports = ["ip_local_port_range='40000 40199'", "tcp_tw_reuse=1"];
      shell(`ip netns exec client sysctl -qw ${ports.map((one) => `net.ipv4.${one}`).join(" ")}`);
      wrapIptablesRestore();
    });

    it("iptables, ipvs, iptables: open connections continue, and no state of the old mode remains", async () => {
      const standing = await Standing.open();
      await change(ipvs, "SIGKILL");
      await node.program.prints(rulesRemoved);
      assert.equal(left(), modeChains.ipvs);
      assert.equal(await answering(clusterIp, 80), "pod-1 pod-2");
      await standing.endAll();

      const throughIpvs = await Standing.open();
      await change([...flags, "--kube-ipvs-udp-drain-deadline=0s"], "SIGKILL");
      await node.program.prints(ipvsKept);
      assert.equal(await answering(clusterIp, 80), "pod-1 pod-2");
      assert.equal(await answering(nodeAddress, nodePort), "pod-1 pod-2");
      await throughIpvs.endAll();
      await node.program.prints(ipvsRemoved);
      assert.equal(left(), modeChains.iptables);
    });

    it("ipvs, iptables: open connections continue, and addresses that lose their endpoints meanwhile refuse new ones", async () => {
      await change(ipvs, "SIGKILL");
      await node.program.prints(rulesRemoved);
      const throughIpvs = await Standing.open();
      await change([...flags, "--kube-ipvs-udp-drain-deadline=0s"], "SIGKILL");
      await node.program.prints(ipvsKept);
      // The pods still answer, so a virtual server that still balances would send the client to them.
      node.apply(web(), webSlice(), ...dns("10.244.1.20"));
      await refusesClients();
      await throughIpvs.endAll();
      await node.program.prints(ipvsRemoved);
      node.apply(web(), webSlice("10.244.1.10", "10.244.1.20"), ...dns("10.244.1.20"));
      await eventually("service", async () =>
        /-j DNAT .*10\.244\.1\.10:/.test(shell("iptables-save -t nat")),
      );
    });

    it("ipvs, iptables: the next start repeats a removal that iptables-restore rejected", async () => {
      const toIptables = [...flags, "--kube-ipvs-udp-drain-deadline=0s"];
      await change(ipvs, "SIGKILL");
      rejectInput("KUBE-IPVS-FILTER");
      await change(toIptables, "SIGKILL", ["env", `PATH=${rejectingPath}`]);
      await node.program.prints(/"Cannot remove leftovers of IPVS mode" .*refused by the test/);
      assert.match(left(), /KUBE-IPVS-FILTER/);
      await change(toIptables, "SIGTERM");
      await node.program.prints(ipvsRemoved);
      assert.equal(left(), modeChains.iptables);
    });

    it("iptables, userspace: open connections continue, and a killed listener is replaced", async () => {
      const standing = await Standing.open();
      await change(userspace, "SIGKILL");
      await node.program.prints(rulesRemoved);
      await eventually("everything else is removed", async () => left() === modeChains.userspace);
      assert.equal(await answering(clusterIp, 80), "pod-1 pod-2");
      await standing.endAll();
      const client = await Datagrams.open(20_004);
      assert.equal(await client.ask("10.96.0.11", 53), "pod-2");
      await change(userspace, "SIGKILL");
      assert.equal(left(), modeChains.userspace);
      await eventually(
        "a client that keeps its source port",
        async () => (await client.ask("10.96.0.11", 53, 200)) === "pod-2",
      );
      client.close();
      assert.equal(await answering(clusterIp, 80), "pod-1 pod-2");
      assert.equal(await answering(nodeAddress, nodePort), "pod-1 pod-2");
    });

    it("userspace, ipvs, userspace: a removed listener does not cause refused connections", async () => {
      const client = await Datagrams.open(20_002);
      assert.equal(await client.ask("10.96.0.11", 53), "pod-2");
      await change(ipvs, "SIGKILL");
      await node.program.prints(portalsRemoved);
      assert.equal(left(), modeChains.ipvs);
      assert.equal(await answering(clusterIp, 80), "pod-1 pod-2");
      await eventually(
        "a client that keeps its source port",
        async () => (await client.ask("10.96.0.11", 53, 200)) === "pod-2",
      );
      client.close();
      const throughIpvs = await Standing.open();
      await change(userspace, "SIGTERM");
      await node.program.prints(ipvsKept);
      assert.equal(await answering(clusterIp, 80), "pod-1 pod-2");
      await throughIpvs.endAll();
    });

    it("--cleanup removes the state of all three modes, but keeps kubelet's firewall", async () => {
      // If another proxy may be running, leftovers of other modes are kept. Leftovers of IPVS mode are kept until a UDP
      // flow has ended.
      await change([...flags, "--kube-ipvs-ignore-running-kube-proxy"], "SIGKILL");
      assert.match(left(), /KUBE-IPVS-FILTER.* KUBE-PORTALS-HOST .*KUBE-SEP .*kube-ipvs0$/);
      await node.stop("SIGTERM");
      shell(`dist/kube-ipvs --cleanup ${node.flags.join(" ")}`);
      assert.equal(left(), "KUBE-FIREWALL");
    });
  });

  describe("filter rules that iptables-restore rejects", () => {
    const filterChains = {
      iptables: "KUBE-\\(PROXY-FIREWALL\\|FORWARD\\|EXTERNAL-SERVICES\\)",
      // No address is bound without KUBE-IPVS-FILTER.
      ipvs: "KUBE-\\(PROXY\\|SOURCE-RANGES\\)-FIREWALL",
    };
    const places = { open: "10.96.0.81", admitting: "10.96.0.82", "shutting-out": "10.96.0.83" };
    const ranges: Readonly<Record<string, readonly string[]>> = {
      admitting: [`${clientAddress}/32`],
      "shutting-out": ["198.51.100.0/24"],
    };
    let sourcePort = 21_000;

    function balanced(name: keyof typeof places): readonly ApiObject[] {
      const ports = [{ name: "dns", protocol: "UDP", port: 53 }];
      return [
        service({
          ...{
            name,
            type: "LoadBalancer",
            clusterIps: [`10.96.1.${Object.keys(places).indexOf(name)}`],
          },
          ports: [{ ...ports[0], targetPort: 5353 }],
          spec: name in ranges ? { loadBalancerSourceRanges: ranges[name] } : {},
          status: { loadBalancer: { ingress: [{ ip: places[name] }] } },
        }),
        endpointSlice({
          ...{ name: `${name}-a`, service: name },
          endpoints: [endpoint("10.244.1.10", { nodeName: "node-1" })],
          ports: [{ name: "dns", protocol: "UDP", port: 5353 }],
        }),
      ];
    }

    async function answerOf(name: keyof typeof places): Promise<string> {
      const client = await Datagrams.open(++sourcePort);
      try {
        return await client.ask(places[name], 53, 500);
      } finally {
        client.close();
      }
    }

    for (const [mode, chains] of Object.entries(filterChains)) {
      it(`never let clients bypass source ranges, and affect no other Service: ${mode} mode`, async () => {
        rejectInput(chains);
        node.apply(...balanced("open"), ...balanced("admitting"), ...balanced("shutting-out"));
        await node.start([...flags, `--proxy-mode=${mode}`], ["env", `PATH=${rejectingPath}`]);
        await eventually("an answer", async () => (await answerOf("open")) === "pod-1");
        for (let times = 0; times < 10; times += 1) {
          assert.equal(await answerOf("shutting-out"), "nobody");
        }
        assert.doesNotMatch(
          shell("iptables-save -t filter"),
          new RegExp(chains.replaceAll("\\", "")),
        );
        rejectNothing();
        await eventually("an answer", async () => (await answerOf("admitting")) === "pod-1");
        await eventually("rules", async () =>
          /KUBE-PROXY-FIREWALL -/.test(shell("iptables-save -t filter")),
        );
        assert.equal(await answerOf("shutting-out"), "nobody");
        await node.stop("SIGTERM");
        shell(`dist/kube-ipvs --cleanup ${node.flags.join(" ")}`);
      });
    }
  });
});
