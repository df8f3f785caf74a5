/**
 * The matrix in iptables and userspace mode: the sections of IPVS mode, with different outcomes and their reasons.
 */
import { inColumns } from "./matrix.ts";
import type { Path, Section } from "./path.ts";
import { transports } from "./path.ts";
import { sectionNamed } from "./sections.ts";

type Outcome = Pick<Path, "expected" | "except">;

/** The sections of one mode. */
export interface ModeSections {
  readonly mode: "iptables" | "userspace";
  readonly text: readonly string[];
  readonly sections: readonly Section[];
  /** Sections that every `make test` runs. `make packet-paths` runs all of them. */
  readonly always: ReadonlySet<Section>;
  /** By title: sections of IPVS mode that do not apply, and the reason. */
  readonly without: readonly (readonly [title: string, reason: string])[];
  /** See `WalkOptions`. */
  readonly mostProbes?: number;
  readonly isTurnShared?: boolean;
}

/** A section of IPVS mode with different outcomes. `undefined` keeps the outcome of IPVS mode. */
function section(
  title: string,
  text: readonly string[],
  outcomeOf: (path: Path) => Outcome | undefined = () => undefined,
): Section {
  const base = sectionNamed(title);
  return {
    ...base,
    text,
    paths: base.paths.map(({ except: _, ...path }, index) => {
      const given = base.paths[index];
      return { ...path, ...(given === undefined ? {} : (outcomeOf(given) ?? outcome(given))) };
    }),
  };
}

function outcome({ expected, except }: Outcome): Outcome {
  return { expected, ...(except === undefined ? {} : { except }) };
}

function isExternal({ target }: Path): boolean {
  return target.kind === "service" && target.frontend !== "cluster IP";
}

function isOutside({ labels: [address] }: Path): boolean {
  return address === "load-balancer IP" || address === "external IP";
}

function isVirtual({ labels: [address] }: Path): boolean {
  return address === "cluster IP" || address === "load-balancer IP" || address === "external IP";
}

const silence: Outcome = { expected: "silence" };
const deniedOnNode: Outcome = { expected: "silence", except: inColumns("UDP", "EPERM") };

/**
 * Outcomes of external policy Local: connections reach the endpoint `near` and the one on the other node, except those
 * from external clients.
 */
function localToAll(near: string): (path: Path) => Outcome | undefined {
  return (path) => {
    const [, policy] = path.labels;
    if (policy !== "Local" || !isExternal(path) || path.from === "client") return undefined;
    if (path.from === "node") return { expected: `${near}←gateway, remote←node` };
    return { expected: `${near}←${path.from}, remote←${path.from}` };
  };
}

const routedInTables = section(
  "Routed pods",
  [
    "Unlike in IPVS mode, external policy Local does not apply to the node's own pods and processes: they reach " +
      "every endpoint. Endpoints are chosen at random.",
  ],
  localToAll("local"),
);

const quickInTables: readonly Section[] = [
  routedInTables,
  section(
    "Policy Local without a local endpoint",
    [
      "Packets from external clients are dropped, so clients try another node. Under internal policy Local, " +
        "all packets " +
        "are dropped. External policy Local does not apply to the node's own pods and processes.",
    ],
    (path) => {
      if (!isExternal(path)) return path.from === "node" ? deniedOnNode : silence;
      if (path.from === "client") return silence;
      return { expected: path.from === "node" ? "remote←node" : "remote←pod" };
    },
  ),
  section(
    "Internal policy Local without a local endpoint, cluster IP only",
    ["The packets are dropped."],
    ({ from }) => (from === "node" ? deniedOnNode : silence),
  ),
  section(
    "No endpoints",
    [
      "The filter table rejects the packets. As in kube-proxy, its rules for external and load-balancer IPs " +
        "exist only in INPUT and FORWARD, so packets from the node's own processes to these IPs are lost.",
    ],
    (path) => {
      if (path.from !== "node") return undefined;
      if (isOutside(path)) return silence;
      return path.labels[0] === "node port" ? { expected: "refused" } : undefined;
    },
  ),
  section(
    "Source ranges",
    [
      "KUBE-FW-… accepts clients in a source range. KUBE-PROXY-FIREWALL drops packets from the node's " +
        "own processes.",
    ],
    (path) => {
      const [, allowed] = path.labels;
      return path.from === "node" && allowed === "branch" ? deniedOnNode : undefined;
    },
  ),
];

const tables: ModeSections = {
  mode: "iptables",
  text: [
    "Rules and paths are those of kube-proxy's iptables mode. Virtual IPs are not addresses of a node.",
  ],
  mostProbes: 24,
  always: new Set(quickInTables),
  sections: [
    ...quickInTables,
    section("A pod that reaches itself", [
      "KUBE-SEP-… masquerades the connection, as in IPVS mode.",
    ]),
    section(
      "An endpoint in the host network",
      [
        "Unlike in IPVS mode, a virtual IP is never a source address, because it is not assigned to any node.",
      ],
      ({ expected }) => ({ expected: expected.replace("VIP", "node") }),
    ),
    section("SCTP", ["SCTP behaves like TCP."], localToAll("local")),
    section(
      "Ports that no Service has",
      [
        "No rule matches, and no host has the virtual IP, so the packet leaves through the default route. Node " +
          "ports answer on 127.0.0.1 (`iptables.localhostNodePorts`), but not on ::1.",
      ],
      (path) => {
        if (isVirtual(path)) return silence;
        if (path.target.kind !== "loopback") return undefined;
        return { expected: "local←gateway, remote←node", except: inColumns("IPv6", "refused") };
      },
    ),
    section("An external IP that is the node's own address", [
      "Outcomes are the same as in IPVS mode.",
    ]),
    section("Ping", ["No host has the address."], (path) =>
      isVirtual(path) ? silence : undefined,
    ),
    section(
      "Large requests",
      ["IPv6 datagrams from the node reach an endpoint. In IPVS mode, IPVS drops them."],
      ({ target, expected }) =>
        target.kind === "service" && target.service === "narrow" ? { expected } : undefined,
    ),
    section("Large answers", ["Conntrack forwards the ICMP error, as IPVS does."]),
    section("Strict reverse-path filtering", ["`rp_filter` changes nothing."], localToAll("local")),
    section(
      "Bridged pods, br_netfilter on",
      ["Outcomes are the same as for routed pods."],
      localToAll("bridged"),
    ),
    section(
      "Bridged pods, br_netfilter off",
      ["As in IPVS mode, replies that stay on the bridge are not translated back."],
      (path) => {
        const otherwise = localToAll("bridged")(path);
        return path.from === "bridged-pod" && otherwise !== undefined
          ? { expected: "remote←bridged-pod, silence" }
          : otherwise;
      },
    ),
    section("masqueradeAll", ["Outcomes are the same as in IPVS mode."]),
    section(
      "No local-traffic detector",
      ["No connection is masqueraded. A process on the node uses the node's address anyway."],
      ({ from, expected }) =>
        from === "node" ? { expected: expected.replaceAll("gateway", "node") } : undefined,
    ),
  ],
  without: [
    [
      "Session affinity",
      "the `recent` match remembers clients, so there is no IPVS timeout to test (`test/lab/iptables-mode.test.ts`)",
    ],
    ["`kubeIpvs` settings for IPVS", "they have no effect in this mode"],
    ["Rules and sets removed one by one", "this mode has no sets"],
  ],
};

/** A process on the node connects for every client, so every endpoint sees the node. */
function proxied(path: Path): Outcome {
  const endpoints = new Set([...path.expected.matchAll(/(\S+)←/g)].map(([, name = ""]) => name));
  const seen = [...endpoints].map((name) => {
    if (name === "node") return "node←node";
    return `${name}←${name.startsWith("remote") ? "node" : "gateway"}`;
  });
  return { expected: seen.sort().join(", ") };
}

const resetOrSilence: Outcome = { expected: "ECONNRESET", except: inColumns("UDP", "silence") };
const toAll = (near: string) => (): Outcome => ({ expected: `${near}←gateway, remote←node` });

const quickProxied: readonly Section[] = [
  section(
    "No endpoints",
    ["A TCP connection is accepted and then reset. A datagram is lost."],
    () => resetOrSilence,
  ),
];

const sockets: ModeSections = {
  mode: "userspace",
  text: ["iptables rules redirect virtual IPs and node ports to the listeners."],
  // Round robin, except that an endpoint that takes longer than 250 ms is skipped.
  mostProbes: 24,
  isTurnShared: true,
  always: new Set(quickProxied),
  sections: [
    ...quickProxied,
    section(
      "Routed pods",
      [
        "Endpoints see the node's address. Policy Local has no effect, because one listener serves all " +
          "addresses of a Service. Clients outside the cluster reach every address of a Service, including its cluster IP.",
      ],
      toAll("local"),
    ),
    section("Policy Local without a local endpoint", ["The policy has no effect."], () => ({
      expected: "remote←node",
    })),
    section(
      "Internal policy Local without a local endpoint, cluster IP only",
      ['Outcomes are the same as in the section "No endpoints".'],
      () => resetOrSilence,
    ),
    section(
      "A pod that reaches itself",
      ["The connection passes through a process on the node."],
      proxied,
    ),
    section("An endpoint in the host network", ["The endpoint sees the node's address."], proxied),
    section(
      "Ports that no Service has",
      ["No host has the virtual IPs. Node ports answer on loopback addresses."],
      (path) => {
        if (isVirtual(path)) return silence;
        return path.target.kind === "loopback"
          ? { expected: "local←gateway, remote←node" }
          : undefined;
      },
    ),
    section(
      "An external IP that is the node's own address",
      ["The endpoint sees the node's address."],
      (path) => (path.target.kind === "service" ? toAll("local")() : undefined),
    ),
    section("Ping", ["No host has the address."], (path) =>
      isVirtual(path) ? silence : undefined,
    ),
    overTcp(
      section("Large requests", ["TCP detects the path MTU. A large datagram is lost."], proxied),
    ),
    overTcp(section("Large answers", ["Outcomes are the same as for large requests."], proxied)),
    section("Strict reverse-path filtering", ["`rp_filter` changes nothing."], toAll("local")),
    section(
      "Bridged pods, br_netfilter on",
      ["Outcomes are the same as for routed pods."],
      toAll("bridged"),
    ),
    section(
      "Bridged pods, br_netfilter off",
      ["Connections pass through a process on the node, so replies are not lost."],
      toAll("bridged"),
    ),
  ],
  without: [
    ["SCTP", "Node.js has no SCTP sockets"],
    ["Source ranges", "rules implement them (`test/unit/userspace/portal-rules.test.ts`)"],
    ["Session affinity", "the balancer implements it (`test/unit/userspace/balancer.test.ts`)"],
    ['masqueradeAll and "No local-traffic detector"', "this mode masquerades no connections"],
    ["`kubeIpvs` settings for IPVS, and rules and sets removed one by one", "IPVS is not used"],
  ],
};

function overTcp(given: Section): Section {
  return { ...given, columns: transports.filter(({ protocol }) => protocol === "TCP") };
}

export const modeSections: readonly ModeSections[] = [tables, sockets];
