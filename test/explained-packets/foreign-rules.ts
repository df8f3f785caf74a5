/**
 * Rules as other software writes them: a firewall manager, container engines, network plug-ins and a host firewall.
 * Each is one shell script. The node's rules are restored afterwards.
 */
import { docker, firewalld, nftFirewalld, ufw } from "../neighbors/firewalls.ts";
import { calico, flannel } from "../neighbors/network-plugins.ts";
import { nft, restore, type TableName } from "../neighbors/restore.ts";
import type { Draw } from "./draw.ts";
import { setsInIpv6 } from "./in-ipv6.ts";

export interface ForeignRules {
  readonly name: string;
  /** Whether the rules need nf_tables. */
  readonly isNft?: true;
  script(draw: Draw): string;
}

/** A distribution's rules, which may or may not open node ports. */
function openings(draw: Draw): readonly string[] {
  return draw.some(
    [
      "-p tcp -m tcp --dport 22",
      "-p tcp -m tcp --dport 30000:32767",
      "-p udp -m udp --dport 30000:32767",
      "-p tcp -m multiport --dports 80,443",
      "-p udp -m multiport --dports 53,80",
      "-s 192.168.10.0/24",
      "-s 10.244.0.0/16",
    ],
    0.6,
  );
}

const drawnFirewalld: ForeignRules = {
  name: "firewalld",
  script: (draw) =>
    firewalld({
      trusted: draw.some(["10.244.0.0/16", "192.168.20.0/24"], 0.4),
      allowed: openings(draw),
      forwarded: draw.some(["-i veth+", "-o veth+"], 0.3),
    }),
};

const drawnUfw: ForeignRules = {
  name: "ufw",
  script: (draw) =>
    ufw({
      forwardPolicy: draw.one(["DROP", "ACCEPT"]),
      allowed: openings(draw),
      routed: draw.some(["-i veth+", "-o eth0"], 0.5),
    }),
};

const drawnDocker: ForeignRules = {
  name: "Docker",
  script: (draw) =>
    docker({
      published: draw.one([8088, 9999, 30_010]),
      to: draw.one(["172.17.0.2:80", "10.244.1.10:8080"]),
      forwardPolicy: draw.one(["DROP", "ACCEPT"]),
      user: draw.some(["-i eth0 -p tcp -j DROP"], 0.3),
    }),
};

const drawnCalico: ForeignRules = {
  name: "Calico",
  script: (draw) =>
    calico({
      ingress: draw.some(
        [
          "-s 192.168.10.0/24",
          "-s 10.244.1.5/32",
          "-s 192.168.10.11/32",
          "-p udp",
          "-s 10.244.0.0/16",
        ],
        0.4,
      ),
      egress: draw.one([[""], ["-p tcp -m multiport --dports 80,8080"]]),
      nodePorts: draw.one(["30000:32767", "31000:32767"]),
    }),
};

/** Sets that rules refer to, and their entries. */
const sets: readonly (readonly [definition: string, ...entries: readonly string[]])[] = [
  ["cali40masq hash:net", "10.244.0.0/16"],
  ["cali40all hash:net", "10.244.0.0/16"],
  ["cali40this-host hash:ip", "192.168.10.11", "10.244.1.1", "10.244.8.1"],
  [
    "fw-nets hash:net comment",
    ...["192.168.0.0/16", "192.168.10.0/24 nomatch", "192.168.10.1"],
    ...["10.244.0.0/16", "10.244.1.5 nomatch"],
  ],
  ["fw-hosts hash:ip timeout 86400 counters", "192.168.10.1", "10.244.8.5"],
  ["fw-ports bitmap:port range 1-40000", "80", "8080", "30010-30014"],
  [
    "fw-services hash:ip,port",
    ...["10.96.0.10-10.96.0.13,tcp:80", "10.96.0.14,udp:80", "192.168.10.11,tcp:30010"],
  ],
  [
    "fw-netports hash:net,port",
    ...["10.244.0.0/16,tcp:8080", "10.244.2.0/24,tcp:8080 nomatch", "203.0.113.0/24,udp:80"],
    ...["10.96.0.0/16,tcp:80", "10.96.0.12,tcp:80 nomatch"],
  ],
  [
    "fw-pairs hash:net,net",
    ...["192.168.20.0/24,10.244.0.0/16", "192.168.20.1,10.244.1.0/24 nomatch"],
    "10.244.0.0/16,10.244.2.0/24",
  ],
  [
    "fw-triples hash:ip,port,net",
    ...["10.96.0.11,tcp:80,10.244.0.0/16", "10.96.0.11,tcp:80,10.244.1.0/24 nomatch"],
    ...["192.168.10.11,tcp:30011,192.168.20.0/24", "203.0.113.10,udp:80,192.168.0.0/16"],
  ],
];

const setsInIpv4: string = sets
  .flatMap(([definition, ...entries]) => [
    `ipset -exist create ${definition}`,
    ...entries.map((entry) => `ipset -exist add ${definition.split(" ")[0]} ${entry}`),
  ])
  .join("\n");

export const foreignSets: string = [setsInIpv4, setsInIpv6(setsInIpv4)].join("\n");

const setFirewall: ForeignRules = {
  name: "firewall with ipsets",
  script: (draw) => {
    const tables: Readonly<Record<TableName, readonly string[]>> = {
      raw: [
        "-A PREROUTING -p udp -m set --match-set fw-nets src -j DROP",
        "-A PREROUTING -m set --match-set fw-services dst,dst -j DROP",
      ],
      mangle: [
        "-A POSTROUTING -m set --match-set fw-pairs src,dst -j DROP",
        "-A POSTROUTING -m set --match-set fw-pairs src -j DROP",
        "-A FORWARD -m set ! --match-set fw-nets src -m set ! --match-set fw-hosts dst -j DROP",
      ],
      nat: [
        "-A POSTROUTING -m set --match-set fw-nets src -m set ! --match-set fw-nets dst -j MASQUERADE",
      ],
      filter: [
        "-A INPUT -p tcp -m set --match-set fw-ports dst -j REJECT --reject-with tcp-reset",
        "-A INPUT -m set --match-set fw-triples dst,dst,src -j DROP",
        "-A FORWARD -p tcp -m tcp --tcp-flags SYN,ACK SYN,ACK -m set --match-set fw-netports src,src -j DROP",
        "-A OUTPUT -m set --match-set fw-netports dst,dst -j REJECT --reject-with icmp-port-unreachable",
      ],
    };
    return Object.entries(tables)
      .map(([table, rules]) => [table as TableName, draw.some(rules, 0.3)] as const)
      .filter(([, rules]) => rules.length > 0)
      .map(([table, rules]) => restore(table, rules))
      .join("");
  },
};

const drawnFlannel: ForeignRules = { name: "flannel", script: () => flannel };

const hostFirewall: ForeignRules = {
  name: "host firewall",
  script: (draw) => {
    const drops = draw.some(
      [
        "-A INPUT -i eth0 -p tcp -m tcp --dport 30010 -j DROP",
        "-A INPUT -p tcp -m multiport --dports 30000:30020 -j REJECT --reject-with tcp-reset",
        "-A INPUT -p udp -m udp --dport 80 -j REJECT --reject-with icmp-port-unreachable",
        "-A FORWARD -o eth0 -j DROP",
        "-A OUTPUT -d 10.244.2.0/24 -j DROP",
        "-A OUTPUT -p tcp -m tcp --dport 8080 -j REJECT --reject-with tcp-reset",
        "-A FORWARD -p tcp -m tcp --sport 8080 --tcp-flags FIN,SYN,RST,ACK SYN,ACK -j DROP",
        "-A INPUT -p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK FIN -j DROP",
        "-A INPUT -p tcp -m conntrack --ctstate NEW -m limit --limit 25/sec -j ACCEPT",
        "-A INPUT ! -i lo -d 127.0.0.0/8 -j REJECT",
      ],
      0.25,
    );
    const raw = draw.some(
      [
        "-A PREROUTING -s 192.168.20.0/24 -j DROP",
        "-A PREROUTING -p udp -m udp --dport 53 -j CT --notrack",
        "-A PREROUTING -i eth0 -s 10.244.0.0/16 -j DROP",
        "-A PREROUTING ! -i lo -d 127.0.0.0/8 -j DROP",
        "-A PREROUTING -p udp -m conntrack --ctstate INVALID -j DROP",
        "-A OUTPUT -o eth0 -d 10.244.2.10/32 -j DROP",
      ],
      0.2,
    );
    const mangle = draw.some(
      [
        "-A PREROUTING -m conntrack --ctstate INVALID -j DROP",
        "-A PREROUTING -p tcp ! --syn -m conntrack --ctstate NEW -j DROP",
        "-A FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu",
        "-A POSTROUTING -o veth+ -s 192.168.20.1/32 -j DROP",
        "-A INPUT -s 10.244.8.0/24 -j DROP",
      ],
      0.2,
    );
    return [
      drops.length === 0 ? "" : restore("filter", drops),
      raw.length === 0 ? "" : restore("raw", raw),
      mangle.length === 0 ? "" : restore("mangle", mangle),
    ].join("");
  },
};

const drawnNftFirewalld: ForeignRules = {
  name: "firewalld with nftables",
  isNft: true,
  script: (draw) =>
    nftFirewalld({
      inputZones: ['iifname "veth*" accept'],
      allowed: draw.some(
        [
          "tcp dport 22 ct state new,untracked accept",
          "tcp dport 30000-32767 ct state new,untracked accept",
          "udp dport { 53, 80, 30000-32767 } accept",
          "tcp dport { 80, 443 } accept",
          "ip saddr { 10.244.0.0/16, 192.168.20.0/24 } accept",
        ],
        0.6,
      ),
      forwardZones: draw.some(
        ['iifname "veth*" accept', "iifname eth0 accept", 'oifname "veth*" accept'],
        0.5,
      ),
    }),
};

const nftHostFirewall: ForeignRules = {
  name: "host firewall with nftables",
  isNft: true,
  script: (draw) =>
    nft([
      "table inet hostfw {",
      `chain input { type filter hook input priority ${draw.one([-160, -10, 0, 50, 98, 99, 100, 200])}; policy ${draw.one(["accept", "drop"])};`,
      "ct state established,related accept; iif lo accept",
      ...draw.some(
        [
          "tcp dport { 22, 30000-30012 } accept",
          "ip saddr 192.168.10.0/24 accept",
          "ip saddr 10.244.0.0/16 meta l4proto udp accept",
          "tcp dport vmap { 80 : accept, 81 : drop }",
          "udp dport 80 reject",
          "tcp dport 30010 drop",
        ],
        0.5,
      ),
      "}",
      `chain forward { type filter hook forward priority ${draw.one([-10, 0, 50])}; policy ${draw.one(["accept", "accept", "drop"])};`,
      "ct state vmap { established : accept, related : accept, invalid : drop }",
      ...draw.some(
        ['iifname "veth*" accept', "ip daddr 10.244.0.0/16 accept", "tcp dport 8080 drop"],
        0.4,
      ),
      "}",
      `chain output { type filter hook output priority ${draw.one([-10, 0, 50])}; policy accept;`,
      ...draw.some(["ip daddr 10.244.2.0/24 drop", "tcp dport 8080 reject with tcp reset"], 0.2),
      "}",
      "}",
    ]),
};

const nftIngress: ForeignRules = {
  name: "nftables ingress",
  isNft: true,
  script: (draw) =>
    nft([
      "table inet early {",
      "chain ingress { type filter hook ingress device eth0 priority 0; policy accept;",
      draw.one([
        ...["ip saddr 192.168.20.1 drop", "udp dport 80 drop", "tcp dport 30010 drop"],
        "tcp dport 80 ct state invalid drop",
      ]),
      "}",
      "}",
    ]),
};

const nftTranslation: ForeignRules = {
  name: "nftables translation",
  isNft: true,
  script: (draw) =>
    nft([
      "table ip translate {",
      `chain pre { type nat hook prerouting priority ${draw.one([-110, -100, -90])};`,
      draw.one([
        "tcp dport 30010 dnat to 10.244.1.10:8080",
        "ip daddr 10.96.0.10 udp dport 80 dnat to 10.244.1.10:8080",
        "tcp dport 9999 redirect to :30011",
      ]),
      "}",
      "chain post { type nat hook postrouting priority 100;",
      draw.one([
        "ip saddr 10.244.0.0/16 ip daddr != 10.244.0.0/16 masquerade",
        "oifname eth0 masquerade",
      ]),
      "}",
      "}",
    ]),
};

/** Rules that answers meet when they leave the node. */
const answerFirewall: ForeignRules = {
  name: "drops of answers",
  script: (draw) => {
    const filter = draw.some(
      [
        "-A OUTPUT -m conntrack --ctstate ESTABLISHED -s 10.96.0.0/16 -j DROP",
        "-A OUTPUT -p tcp -m tcp --sport 8080 -j DROP",
        "-A OUTPUT -p udp -m udp --sport 80 -j DROP",
        "-A FORWARD -p tcp -m tcp --sport 8080 --tcp-flags SYN,ACK SYN,ACK -d 192.168.20.1/32 -j DROP",
      ],
      0.4,
    );
    const mangle = draw.some(
      [
        "-A POSTROUTING -o eth0 -s 203.0.113.0/24 -j DROP",
        "-A POSTROUTING -p tcp -m tcp --sport 80 -d 10.244.0.0/16 -j DROP",
        "-A OUTPUT -p udp -m udp --sport 30011 -j DROP",
      ],
      0.4,
    );
    return [
      filter.length === 0 ? "" : restore("filter", filter),
      mangle.length === 0 ? "" : restore("mangle", mangle),
    ].join("");
  },
};

const nftBridge: ForeignRules = {
  name: "nftables bridge firewall",
  isNft: true,
  script: (draw) =>
    nft([
      "table bridge walls {",
      `chain enter { type filter hook ${draw.one(["prerouting", "input"])} priority -200; policy accept;`,
      draw.one(["ip saddr 10.244.8.5 tcp dport 80 drop", "udp dport 80 drop"]),
      "}",
      `chain leave { type filter hook ${draw.one(["output", "postrouting"])} priority 0; policy accept;`,
      draw.one([
        "ip daddr 10.244.8.10 udp dport 8080 drop",
        "ip daddr 10.244.8.5 tcp sport 80 drop",
      ]),
      "}",
      "}",
    ]),
};

export const foreignRules: readonly ForeignRules[] = [
  ...[drawnFirewalld, drawnUfw, drawnDocker, drawnCalico, drawnFlannel, hostFirewall],
  ...[
    setFirewall,
    answerFirewall,
    drawnNftFirewalld,
    nftHostFirewall,
    nftIngress,
    nftTranslation,
    nftBridge,
  ],
];
