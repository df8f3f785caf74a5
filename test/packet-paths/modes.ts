/** The matrix in modes iptables and userspace: the sections of mode ipvs, with what comes out otherwise, and why. */
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
  /** Tried in each `make test`; the others by `make packet-paths`. */
  readonly always: ReadonlySet<Section>;
  /** By title: sections of mode ipvs that there are not, and the reason. */
  readonly without: readonly (readonly [title: string, reason: string])[];
  /** As `WalkOptions` has them. */
  readonly mostProbes?: number;
  readonly isTurnShared?: boolean;
}

/** A section of mode ipvs with other outcomes; `undefined`: that of mode ipvs. */
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

/** External policy Local: endpoints of `near` and of the other node, unless the connection comes from outside. */
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
    "As in mode ipvs, but for external policy Local: pods and processes of the node are not bound by it, and get every " +
      "endpoint. Endpoints are chosen at random.",
  ],
  localToAll("local"),
);

const quickInTables: readonly Section[] = [
  routedInTables,
  section(
    "Policy Local without a local endpoint",
    [
      "Clients outside, and everybody under internal policy Local, are dropped, so that they may look " +
        "elsewhere. For pods and processes of the node external policy Local does not count.",
    ],
    (path) => {
      if (!isExternal(path)) return path.from === "node" ? deniedOnNode : silence;
      if (path.from === "client") return silence;
      return { expected: path.from === "node" ? "remote←node" : "remote←pod" };
    },
  ),
  section(
    "Internal policy Local without a local endpoint, cluster IP only",
    ["Dropped."],
    ({ from }) => (from === "node" ? deniedOnNode : silence),
  ),
  section(
    "No endpoints",
    [
      "REJECT in filter. Rules for external and load-balancer IPs stand in INPUT and FORWARD alone, as kube-proxy's, so a " +
        "process of the node sends to nobody.",
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
      "KUBE-FW-… lets through whom a range names; a process of the node is dropped in KUBE-PROXY-FIREWALL.",
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
    "Rules are those of kube-proxy's mode iptables, and so are these paths. Virtual IPs are not addresses of the node.",
  ],
  mostProbes: 24,
  always: new Set(quickInTables),
  sections: [
    ...quickInTables,
    section("A pod that reaches itself", ["As in mode ipvs; KUBE-SEP-… masquerades."]),
    section(
      "An endpoint in the host network",
      ["As in mode ipvs, but a virtual IP is not an address of the node, and so not a source."],
      ({ expected }) => ({ expected: expected.replace("VIP", "node") }),
    ),
    section("SCTP", ["As TCP."], localToAll("local")),
    section(
      "Ports that no Service has",
      [
        "No rule is about them, and a virtual IP is nobody's address: the packet takes the default route. Node ports answer " +
          "on 127.0.0.1 (`iptables.localhostNodePorts`), not on ::1.",
      ],
      (path) => {
        if (isVirtual(path)) return silence;
        if (path.target.kind !== "loopback") return undefined;
        return { expected: "local←gateway, remote←node", except: inColumns("IPv6", "refused") };
      },
    ),
    section("An external IP that is the node's own address", ["As in mode ipvs."]),
    section("Ping", ["Nobody has the address."], (path) => (isVirtual(path) ? silence : undefined)),
    section(
      "Large requests",
      [
        "As in mode ipvs, but IPv6 datagrams of the node reach an endpoint here: there is no IPVS to refuse them.",
      ],
      ({ target, expected }) =>
        target.kind === "service" && target.service === "narrow" ? { expected } : undefined,
    ),
    section("Large answers", ["As in mode ipvs, by conntrack."]),
    section("Strict reverse-path filtering", ["`rp_filter` changes nothing."], localToAll("local")),
    section("Bridged pods, br_netfilter on", ["As routed pods."], localToAll("bridged")),
    section(
      "Bridged pods, br_netfilter off",
      ["What stays on the bridge is not translated back, as in mode ipvs."],
      (path) => {
        const otherwise = localToAll("bridged")(path);
        return path.from === "bridged-pod" && otherwise !== undefined
          ? { expected: "remote←bridged-pod, silence" }
          : otherwise;
      },
    ),
    section("masqueradeAll", ["As in mode ipvs."]),
    section(
      "No local-traffic detector",
      ["Nothing is masqueraded; a process of the node has the node's address all the same."],
      ({ from, expected }) =>
        from === "node" ? { expected: expected.replaceAll("gateway", "node") } : undefined,
    ),
  ],
  without: [
    [
      "Session affinity",
      "the list of clients is kept by `recent`, not by timeouts of IPVS: `test/lab/iptables-mode.test.ts`",
    ],
    ["Settings of `kubeIpvs` for IPVS", "they have no effect in this mode"],
    ["What the parts are for", "there are no sets"],
  ],
};

/** The process on the node connects, whoever asked: every endpoint sees the node. */
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
    ["A TCP connection is accepted, and reset; a datagram is lost."],
    () => resetOrSilence,
  ),
];

const sockets: ModeSections = {
  mode: "userspace",
  text: ["With iptables: rules lead virtual IPs and node ports to the listeners."],
  // Round robin, but an endpoint that takes longer than 250 ms is passed over.
  mostProbes: 24,
  isTurnShared: true,
  always: new Set(quickProxied),
  sections: [
    ...quickProxied,
    section(
      "Routed pods",
      [
        "Endpoints see the node. A policy Local has no effect: one listener serves all addresses of a Service, and these are " +
          "reached from outside, too.",
      ],
      toAll("local"),
    ),
    section("Policy Local without a local endpoint", ["The policy has no effect."], () => ({
      expected: "remote←node",
    })),
    section(
      "Internal policy Local without a local endpoint, cluster IP only",
      ["As without endpoints."],
      () => resetOrSilence,
    ),
    section("A pod that reaches itself", ["The node stands between."], proxied),
    section("An endpoint in the host network", ["Seen from the node itself."], proxied),
    section(
      "Ports that no Service has",
      ["Virtual IPs are nobody's address. Node ports answer on loopback addresses."],
      (path) => {
        if (isVirtual(path)) return silence;
        return path.target.kind === "loopback"
          ? { expected: "local←gateway, remote←node" }
          : undefined;
      },
    ),
    section("An external IP that is the node's own address", ["Likewise."], (path) =>
      path.target.kind === "service" ? toAll("local")() : undefined,
    ),
    section("Ping", ["Nobody has the address."], (path) => (isVirtual(path) ? silence : undefined)),
    overTcp(
      section("Large requests", ["TCP, which learns the size; a datagram is lost."], proxied),
    ),
    overTcp(section("Large answers", ["Likewise."], proxied)),
    section("Strict reverse-path filtering", ["It changes nothing."], toAll("local")),
    section("Bridged pods, br_netfilter on", ["As routed pods."], toAll("bridged")),
    section(
      "Bridged pods, br_netfilter off",
      ["The node stands between, so nothing is lost."],
      toAll("bridged"),
    ),
  ],
  without: [
    ["SCTP", "Node.js has no sockets for it"],
    ["Source ranges", "`loadBalancerSourceRanges` are not applied: every client gets through"],
    ["Session affinity", "the balancer keeps it: `test/unit/userspace/balancer.test.ts`"],
    ["masqueradeAll, No local-traffic detector", "nothing is masqueraded"],
    ["Settings of `kubeIpvs` for IPVS, What the parts are for", "there is no IPVS"],
  ],
};

function overTcp(given: Section): Section {
  return { ...given, columns: transports.filter(({ protocol }) => protocol === "TCP") };
}

export const modeSections: readonly ModeSections[] = [tables, sockets];
