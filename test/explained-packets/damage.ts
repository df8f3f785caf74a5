/** Damage to a node, and its repair. The caller restores rules, sets and virtual servers. */
import { branch, guestNamed } from "../packet-paths/places.ts";
import { changeEntry, flushChain, flushSet } from "../support/rules-writer.ts";
import type { Draw } from "./draw.ts";
import {
  addressOf,
  addressOfPlace,
  type DrawnService,
  type Frontend,
  portOf,
} from "./drawn-services.ts";

export interface Damage {
  readonly name: string;
  readonly breaks: string;
  readonly mends?: string;
  /** Places that do not answer. */
  readonly deadPlaces?: readonly string[];
  /** Whether the damage concerns kube-ipvs's own rules or sets. */
  readonly changesRules?: true;
  /** Whether there is no such damage in IPv6. */
  readonly isIpv4Only?: true;
}

const frontends: readonly Frontend[] = [
  "cluster IP",
  "node port",
  "load-balancer IP",
  "external IP",
];

function virtualServerText(service: DrawnService, frontend: Frontend, flag: "-t" | "-u"): string {
  return `${flag} ${addressOf(service, frontend)}:${portOf(service, frontend)}`;
}

/** One kind of damage. If the kind concerns a Service, it affects `service`. */
export function drawDamage(draw: Draw, service: DrawnService): Damage {
  const frontend = draw.one(frontends);
  const flag = draw.one(["-t", "-u"] as const);
  const server = virtualServerText(service, frontend, flag);
  const place = service.endpoints.length === 0 ? undefined : draw.one(service.endpoints);
  const real = place === undefined ? "" : `${addressOfPlace(place, "IPv4")}:${service.port}`;
  const pod = draw.one(["local", "bridged", "remote"]);
  const podAddress = guestNamed(pod).addresses.IPv4;
  const kinds: readonly (() => Damage)[] = [
    () => ({
      name: `missing real server ${server} ${real}`,
      breaks: `ipvsadm -d ${server} -r ${real} || true`,
    }),
    () => ({
      name: `weight 0 ${server} ${real}`,
      breaks: `ipvsadm -e ${server} -r ${real} -m -w 0 || true`,
    }),
    () => ({ name: `missing virtual server ${server}`, breaks: `ipvsadm -D ${server} || true` }),
    () => {
      const [table, chain] = draw.one([
        ...[
          ["nat", "KUBE-SERVICES"],
          ["nat", "KUBE-POSTROUTING"],
          ["nat", "KUBE-MARK-MASQ"],
        ],
        ...[
          ["nat", "KUBE-NODE-PORT"],
          ["nat", "KUBE-LOAD-BALANCER"],
          ["nat", "PREROUTING"],
        ],
        ...[
          ["filter", "KUBE-FORWARD"],
          ["filter", "KUBE-PROXY-FIREWALL"],
          ["filter", "INPUT"],
        ],
        ...[
          ["filter", "KUBE-IPVS-FILTER"],
          ["filter", "KUBE-SOURCE-RANGES-FIREWALL"],
        ],
      ] as const);
      const name = `flushed chain ${table} ${chain}`;
      return { name, breaks: flushChain(table, chain), changesRules: true };
    },
    () => {
      const set = draw.one([
        ...["CLUSTER-IP", "LOAD-BALANCER", "LOAD-BALANCER-FW", "LOAD-BALANCER-SOURCE-CIDR"],
        ...["LOAD-BALANCER-LOCAL", "EXTERNAL-IP", "EXTERNAL-IP-LOCAL", "NODE-PORT-TCP"],
        ...["NODE-PORT-UDP", "NODE-PORT-LOCAL-TCP", "LOOP-BACK", "IPVS-IPS"],
      ]);
      return { name: `empty set ${set}`, breaks: flushSet(set), changesRules: true };
    },
    () => {
      const entry = `${addressOf(service, "cluster IP")},${flag === "-t" ? "tcp" : "udp"}:80`;
      return {
        name: `missing set entry ${entry}`,
        changesRules: true,
        breaks: changeEntry("del", "KUBE-CLUSTER-IP", entry),
      };
    },
    () => {
      const address = addressOf(
        service,
        draw.one(["cluster IP", "load-balancer IP", "external IP"]),
      );
      return {
        name: `missing address ${address}`,
        breaks: `ip addr del ${address}/32 dev kube-ipvs0`,
        mends: `ip addr add ${address}/32 dev kube-ipvs0`,
      };
    },
    () => {
      const kind = draw.one(["blackhole", "unreachable", "prohibit"]);
      const table = `${podAddress}/32 metric 0`;
      const before = `/run/route-before`;
      return {
        name: `${kind} route to ${pod}`,
        breaks: `ip route show ${podAddress}/32 > ${before}; ip route replace ${kind} ${table}`,
        mends: `ip route del ${kind} ${table} || true; [ ! -s ${before} ] || ip route replace $(cat ${before})`,
      };
    },
    () => ({
      name: "rp_filter=1",
      isIpv4Only: true,
      breaks: `ip link add probe0 type dummy; ip link set probe0 up; ip route add ${branch.IPv4}/32 dev probe0; sysctl -qw net.ipv4.conf.all.rp_filter=1`,
      mends: "sysctl -qw net.ipv4.conf.all.rp_filter=0; ip link del probe0",
    }),
    () => ({
      name: `dead pod ${pod}`,
      breaks: `ip -n ${pod} rule add pref 0 blackhole`,
      mends: `ip -n ${pod} rule del pref 0 blackhole`,
      deadPlaces: [pod],
    }),
    () => ({
      name: "ip_forward=0",
      breaks: "sysctl -qw net.ipv4.ip_forward=0",
      mends: "sysctl -qw net.ipv4.ip_forward=1",
    }),
  ];
  return draw.one(kinds)();
}
