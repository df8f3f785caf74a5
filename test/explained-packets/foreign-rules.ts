/**
 * Rules as other software writes them: a firewall manager, container engines, network plug-ins and a host firewall.
 * Each is one shell script. The node's rules are restored afterwards.
 */
import type { Draw } from "./draw.ts";
import { setsInIpv6 } from "./in-ipv6.ts";

export interface ForeignRules {
  readonly name: string;
  /** Whether the rules need nf_tables. */
  readonly isNft?: true;
  script(draw: Draw): string;
}

type TableName = "raw" | "mangle" | "nat" | "filter";

/** Input for iptables-restore that keeps existing rules. `:NAME` creates a chain. `-I` and `-P` are for built-in chains. */
function restore(table: TableName, lines: readonly string[]): string {
  const chains = lines.filter((line) => line.startsWith(":"));
  const rules = lines.filter((line) => !line.startsWith(":") && line !== "");
  return [
    "iptables-restore -w 5 -n <<'END'",
    `*${table}`,
    ...chains.map((line) => `${line} ${/ /.test(line) ? "" : "- "}[0:0]`),
    ...rules,
    "COMMIT",
    "END",
    "",
  ].join("\n");
}

function nft(lines: readonly string[]): string {
  return ["nft -f - <<'END'", ...lines, "END", ""].join("\n");
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

const firewalld: ForeignRules = {
  name: "firewalld",
  script: (draw) => {
    const zone = openings(draw).map(
      (match) => `-A IN_public_allow ${match} -m conntrack --ctstate NEW,UNTRACKED -j ACCEPT`,
    );
    return restore("filter", [
      ...[":INPUT_ZONES", ":IN_public", ":IN_public_allow", ":FORWARD_IN_ZONES", ":FWDI_public"],
      "-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT",
      "-A INPUT -i lo -j ACCEPT",
      "-A INPUT -j INPUT_ZONES",
      "-A INPUT -m conntrack --ctstate INVALID -j DROP",
      "-A INPUT -j REJECT --reject-with icmp-host-prohibited",
      "-A INPUT_ZONES -i veth+ -j ACCEPT",
      "-A INPUT_ZONES -j IN_public",
      "-A IN_public -j IN_public_allow",
      "-A IN_public -p icmp -j ACCEPT",
      "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT",
      "-A FORWARD -i lo -j ACCEPT",
      "-A FORWARD -j FORWARD_IN_ZONES",
      "-A FORWARD -m conntrack --ctstate INVALID -j DROP",
      "-A FORWARD -j REJECT --reject-with icmp-host-prohibited",
      "-A FORWARD_IN_ZONES -i veth+ -g FWDI_public",
      draw.isChosen(0.5) ? "-A FWDI_public -j ACCEPT" : "",
      ...zone,
    ]);
  },
};

const ufw: ForeignRules = {
  name: "ufw",
  script: (draw) => {
    const forwards = draw.isChosen(0.5);
    return restore("filter", [
      ...[":INPUT DROP", `:FORWARD ${forwards ? "ACCEPT" : "DROP"}`],
      ...[":ufw-before-input", ":ufw-not-local", ":ufw-user-input", ":ufw-logging-deny"],
      ...[":ufw-after-input", ":ufw-reject-input", ":ufw-before-forward", ":ufw-user-forward"],
      "-A INPUT -j ufw-before-input",
      "-A INPUT -j ufw-after-input",
      "-A INPUT -j ufw-reject-input",
      "-A ufw-before-input -i lo -j ACCEPT",
      "-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
      "-A ufw-before-input -m conntrack --ctstate INVALID -j ufw-logging-deny",
      "-A ufw-before-input -m conntrack --ctstate INVALID -j DROP",
      "-A ufw-before-input -p icmp -m icmp --icmp-type 8 -j ACCEPT",
      "-A ufw-before-input -p udp -m udp --sport 67 --dport 68 -j ACCEPT",
      "-A ufw-before-input -j ufw-not-local",
      "-A ufw-before-input -d 224.0.0.251/32 -p udp -m udp --dport 5353 -j ACCEPT",
      "-A ufw-before-input -j ufw-user-input",
      "-A ufw-not-local -m addrtype --dst-type LOCAL -j RETURN",
      "-A ufw-not-local -m addrtype --dst-type MULTICAST -j RETURN",
      "-A ufw-not-local -m addrtype --dst-type BROADCAST -j RETURN",
      "-A ufw-not-local -m limit --limit 3/min --limit-burst 10 -j ufw-logging-deny",
      "-A ufw-not-local -j DROP",
      '-A ufw-logging-deny -m limit --limit 3/min -j LOG --log-prefix "[UFW BLOCK] "',
      ...openings(draw).map((match) => `-A ufw-user-input ${match} -j ACCEPT`),
      "-A ufw-after-input -p udp -m udp --dport 137 -j DROP",
      "-A ufw-after-input -m addrtype --dst-type BROADCAST -j DROP",
      draw.isChosen(0.3) ? "-A ufw-reject-input -j REJECT" : "",
      "-A FORWARD -j ufw-before-forward",
      "-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
      "-A ufw-before-forward -j ufw-user-forward",
      draw.isChosen(0.5) ? "-A ufw-user-forward -i veth+ -j ACCEPT" : "",
      draw.isChosen(0.5) ? "-A ufw-user-forward -o eth0 -j ACCEPT" : "",
    ]);
  },
};

const docker: ForeignRules = {
  name: "Docker",
  script: (draw) => {
    const published = draw.one([8088, 9999, 30_010]);
    const to = draw.one(["172.17.0.2:80", "10.244.1.10:8080"]);
    return (
      restore("filter", [
        ...[draw.isChosen(0.5) ? ":FORWARD DROP" : "", ":DOCKER", ":DOCKER-USER"],
        ...[":DOCKER-ISOLATION-STAGE-1", ":DOCKER-ISOLATION-STAGE-2"],
        "-A FORWARD -j DOCKER-USER",
        "-A FORWARD -j DOCKER-ISOLATION-STAGE-1",
        "-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        "-A FORWARD -o docker0 -j DOCKER",
        "-A FORWARD -i docker0 ! -o docker0 -j ACCEPT",
        "-A FORWARD -i docker0 -o docker0 -j ACCEPT",
        "-A DOCKER -d 172.17.0.2/32 ! -i docker0 -o docker0 -p tcp -m tcp --dport 80 -j ACCEPT",
        "-A DOCKER ! -i docker0 -o docker0 -j DROP",
        "-A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2",
        "-A DOCKER-ISOLATION-STAGE-1 -j RETURN",
        "-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP",
        "-A DOCKER-ISOLATION-STAGE-2 -j RETURN",
        draw.isChosen(0.3) ? "-A DOCKER-USER -i eth0 -p tcp -j DROP" : "",
        "-A DOCKER-USER -j RETURN",
      ]) +
      restore("nat", [
        ":DOCKER",
        "-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER",
        "-A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER",
        "-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE",
        "-A POSTROUTING -s 172.17.0.2/32 -d 172.17.0.2/32 -p tcp -m tcp --dport 80 -j MASQUERADE",
        "-A DOCKER -i docker0 -j RETURN",
        `-A DOCKER ! -i docker0 -p tcp -m tcp --dport ${published} -j DNAT --to-destination ${to}`,
      ])
    );
  },
};

/** Pod links are called veth, as with other plug-ins that route. */
const calico: ForeignRules = {
  name: "Calico",
  script: (draw) => {
    const rules = draw.some(
      [
        "-s 192.168.10.0/24",
        "-s 10.244.1.5/32",
        "-s 192.168.10.11/32",
        "-p udp",
        "-s 10.244.0.0/16",
      ],
      0.4,
    );
    return (
      restore("raw", [
        ":cali-PREROUTING",
        "-I PREROUTING -j cali-PREROUTING",
        "-A cali-PREROUTING -j MARK --set-xmark 0x0/0xf0000",
        "-A cali-PREROUTING -i veth+ -j MARK --set-xmark 0x40000/0x40000",
        "-A cali-PREROUTING -m mark --mark 0x10000/0x10000 -j ACCEPT",
      ]) +
      restore("filter", [
        ...[":cali-INPUT", ":cali-FORWARD", ":cali-OUTPUT", ":cali-from-wl-dispatch"],
        ...[":cali-to-wl-dispatch", ":cali-tw-local", ":cali-fw-pod", ":cali-wl-to-host"],
        "-I INPUT -j cali-INPUT",
        "-I FORWARD -j cali-FORWARD",
        "-I OUTPUT -j cali-OUTPUT",
        "-A cali-INPUT -p udp -m udp --dport 4789 -m addrtype --dst-type LOCAL -j DROP",
        "-A cali-INPUT -i veth+ -g cali-wl-to-host",
        "-A cali-INPUT -m mark --mark 0x10000/0x10000 -j ACCEPT",
        "-A cali-wl-to-host -j cali-from-wl-dispatch",
        "-A cali-wl-to-host -j ACCEPT",
        "-A cali-FORWARD -j MARK --set-xmark 0x0/0xe0000",
        "-A cali-FORWARD -i veth+ -j cali-from-wl-dispatch",
        "-A cali-FORWARD -o veth+ -j cali-to-wl-dispatch",
        "-A cali-FORWARD -m mark --mark 0x10000/0x10000 -j ACCEPT",
        "-A cali-OUTPUT -m mark --mark 0x10000/0x10000 -j ACCEPT",
        "-A cali-from-wl-dispatch -s 10.244.1.5/32 -j cali-fw-pod",
        "-A cali-fw-pod -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        "-A cali-fw-pod -m conntrack --ctstate INVALID -j DROP",
        "-A cali-fw-pod -j MARK --set-xmark 0x0/0x10000",
        draw.isChosen(0.5)
          ? "-A cali-fw-pod -p tcp -m multiport --dports 80,8080 -j MARK --set-xmark 0x10000/0x10000"
          : "-A cali-fw-pod -j MARK --set-xmark 0x10000/0x10000",
        "-A cali-fw-pod -m mark --mark 0x10000/0x10000 -j RETURN",
        "-A cali-fw-pod -j DROP",
        "-A cali-to-wl-dispatch -d 10.244.1.10/32 -j cali-tw-local",
        "-A cali-tw-local -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        "-A cali-tw-local -j MARK --set-xmark 0x0/0x10000",
        ...rules.map((match) => `-A cali-tw-local ${match} -j MARK --set-xmark 0x10000/0x10000`),
        "-A cali-tw-local -m mark --mark 0x10000/0x10000 -j RETURN",
        "-A cali-tw-local -j DROP",
      ]) +
      restore("nat", [
        ...[":cali-POSTROUTING", ":cali-nat-outgoing"],
        "-I POSTROUTING -j cali-POSTROUTING",
        "-A cali-POSTROUTING -j cali-nat-outgoing",
        "-A cali-nat-outgoing -m set --match-set cali40masq src -m set ! --match-set cali40all dst -j MASQUERADE",
      ])
    );
  },
};

/** Sets that rules refer to, and their entries. */
const sets: readonly (readonly [definition: string, ...entries: readonly string[]])[] = [
  ["cali40masq hash:net", "10.244.0.0/16"],
  ["cali40all hash:net", "10.244.0.0/16"],
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

const flannel: ForeignRules = {
  name: "flannel",
  script: () =>
    restore("nat", [
      ":FLANNEL-POSTRTG",
      "-A POSTROUTING -j FLANNEL-POSTRTG",
      "-A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -j RETURN",
      "-A FLANNEL-POSTRTG -s 10.244.1.0/24 -d 10.244.0.0/16 -j RETURN",
      "-A FLANNEL-POSTRTG -s 10.244.0.0/16 -d 10.244.1.0/24 -j RETURN",
      "-A FLANNEL-POSTRTG ! -s 10.244.0.0/16 -d 10.244.1.0/24 -j RETURN",
      "-A FLANNEL-POSTRTG -s 10.244.0.0/16 ! -d 224.0.0.0/4 -j MASQUERADE --random-fully",
      "-A FLANNEL-POSTRTG ! -s 10.244.0.0/16 -d 10.244.0.0/16 -j MASQUERADE --random-fully",
    ]) +
    restore("filter", [
      ":FLANNEL-FWD",
      "-A FORWARD -j FLANNEL-FWD",
      "-A FLANNEL-FWD -s 10.244.0.0/16 -j ACCEPT",
      "-A FLANNEL-FWD -d 10.244.0.0/16 -j ACCEPT",
    ]),
};

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

const nftFirewalld: ForeignRules = {
  name: "firewalld with nftables",
  isNft: true,
  script: (draw) =>
    nft([
      "table inet firewalld {",
      "chain filter_PREROUTING { type filter hook prerouting priority 10; policy accept;",
      "icmpv6 type { nd-router-advert, nd-neighbor-solicit } accept",
      "meta nfproto ipv6 fib saddr . mark . iif oif missing drop; }",
      "chain filter_INPUT { type filter hook input priority 10; policy accept;",
      "ct state established,related accept; ct status dnat accept; iifname lo accept",
      "jump filter_INPUT_ZONES; ct state invalid drop",
      "reject with icmpx type admin-prohibited; }",
      "chain filter_FORWARD { type filter hook forward priority 10; policy accept;",
      "ct state established,related accept; ct status dnat accept; iifname lo accept",
      "jump filter_FORWARD_ZONES; ct state invalid drop; reject with icmpx type admin-prohibited; }",
      "chain filter_OUTPUT { type filter hook output priority 10; policy accept;",
      "ct state established,related accept; oifname lo accept; }",
      `chain filter_INPUT_ZONES { iifname "veth*" accept`,
      "goto filter_IN_public; }",
      "chain filter_IN_public { jump filter_IN_public_allow; meta l4proto icmp accept; }",
      "chain filter_IN_public_allow {",
      ...draw.some(
        [
          "tcp dport 22 ct state new,untracked accept",
          "tcp dport 30000-32767 ct state new,untracked accept",
          "udp dport { 53, 80, 30000-32767 } accept",
          "tcp dport { 80, 443 } accept",
          "ip saddr { 10.244.0.0/16, 192.168.20.0/24 } accept",
        ],
        0.6,
      ),
      "}",
      "chain filter_FORWARD_ZONES {",
      ...draw.some(
        ['iifname "veth*" accept', "iifname eth0 accept", 'oifname "veth*" accept'],
        0.5,
      ),
      "}",
      "}",
    ]),
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
  ...[firewalld, ufw, docker, calico, flannel, hostFirewall, setFirewall, answerFirewall],
  ...[nftFirewalld, nftHostFirewall, nftIngress, nftTranslation, nftBridge],
];
