/**
 * Scenes are written for IPv4. This rewrites their addresses and scripts for IPv6, with the addresses of
 * ../packet-paths/places.ts.
 */

const addresses: readonly (readonly [ipv4: RegExp, ipv6: string])[] = [
  [/\/32\b/g, "/128"],
  [/10\.244\.0\.0\/16/g, "fd00:244::/32"],
  [/10\.244\.(\d+)\.0\/24/g, "fd00:244:$1::/64"],
  [/10\.244\.(\d+)\.(\d+)/g, "fd00:244:$1::$2"],
  [/192\.168\.0\.0\/16/g, "fd00::/24"],
  [/192\.168\.(\d+)\.0\/24/g, "fd00:$1::/64"],
  [/192\.168\.(\d+)\.(\d+)/g, "fd00:$1::$2"],
  [/172\.17\.0\.0\/16/g, "fd00:172::/64"],
  [/172\.17\.0\.(\d+)/g, "fd00:172::$1"],
  [/10\.96\.0\.0\/16/g, "fd00:96::/64"],
  [/10\.96\.0\.(\d+)/g, "fd00:96::$1"],
  [/203\.0\.113\.0\/24/g, "2001:db8:203::/64"],
  [/203\.0\.113\.(\d+)/g, "2001:db8:203::$1"],
  [/198\.18\.0\.(\d+)/g, "fd00:198::$1"],
  [/127\.0\.0\.0\/8|127\.0\.0\.1/g, "::1"],
  [/224\.0\.0\.0\/4/g, "ff00::/8"],
  [/224\.0\.0\.(\d+)/g, "ff02::$1"],
];

/** An address or a network in IPv6. */
export function addressInIpv6(text: string): string {
  return addresses.reduce((result, [ipv4, ipv6]) => result.replace(ipv4, ipv6), text);
}

/** Neighbor discovery is ICMPv6, so rules that drop it would separate the hosts. */
const neighbors = "-p ipv6-icmp -j ACCEPT";
const builtInChains = {
  raw: ["PREROUTING", "OUTPUT"],
  mangle: ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
  nat: [],
  filter: ["INPUT", "OUTPUT"],
} as const;

const words: readonly (readonly [ipv4: RegExp, ipv6: string])[] = [
  // Destinations such as 10.244.1.10:8080, of iptables and of nft.
  [/\b(\d+\.\d+\.\d+\.\d+):(\d+)/g, "[$1]:$2"],
  [/\biptables-restore\b/g, "ip6tables-restore"],
  // IPv6 has no broadcast, and `addrtype` rejects the word.
  [/^.*--dst-type BROADCAST.*\n/gm, ""],
  [/-p icmp( -m icmp --icmp-type 8)?/g, "-p ipv6-icmp"],
  [/icmp-port-unreachable/g, "icmp6-port-unreachable"],
  [/icmp-host-prohibited/g, "icmp6-adm-prohibited"],
  [/\bKUBE-CLUSTER-IP\b/g, "KUBE-6-CLUSTER-IP"],
  [/\bip addr add .* dev kube-ipvs0/g, "$& nodad"],
  [/\bip kube-ipvs(?= KUBE-6-)/g, "ip6 kube-ipvs"],
  [/\bfw-(?=(nets|hosts|services|netports|pairs|triples)\b)/g, "fw6-"],
  [/cali40/g, "cali60"],
  [/\bip (?=[sd]addr\b)/g, "ip6 "],
  [/\btable ip (?=translate)/g, "table ip6 "],
  [/meta l4proto icmp accept/g, "meta l4proto ipv6-icmp accept"],
  [/(?=ct state (established,related accept|vmap))/g, "meta l4proto ipv6-icmp accept; "],
  [/\bip (route|rule)\b/g, "ip -6 $1"],
  [/\bip -n (\S+) (route|rule)\b/g, "ip -6 -n $1 $2"],
  [/net\.ipv4\.ip_forward/g, "net.ipv6.conf.all.forwarding"],
  ...Object.entries(builtInChains).map(
    ([table, chains]) =>
      [
        new RegExp(`^COMMIT$(?<=^\\*${table}\\n[^*]*)`, "gm"),
        [...chains.map((chain) => `-I ${chain} ${neighbors}`), "COMMIT"].join("\n"),
      ] as const,
  ),
];

/** A script that changes the node, in IPv6. */
export function scriptInIpv6(script: string): string {
  return addressInIpv6(words.reduce((result, [ipv4, ipv6]) => result.replace(ipv4, ipv6), script));
}

/** Commands of ipset that create the same sets for IPv6. */
export function setsInIpv6(commands: string): string {
  const ownFamily = commands.replaceAll(/^.*(bitmap:|fw-ports).*(\n|$)/gm, "");
  // The type cannot have ranges of IPv6 addresses.
  return scriptInIpv6(ownFamily.replaceAll(/-10\.96\.0\.13/g, "")).replaceAll(
    /(create \S+ \S+)/g,
    "$1 family inet6",
  );
}
