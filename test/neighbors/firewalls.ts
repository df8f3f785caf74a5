/**
 * Rules of ufw 0.36, firewalld 1.3 and Docker. Chains, order and policies are as those programs wrote them in the lab,
 * without chains that have no effect on packets. Lists of matches are the rules that an administrator adds.
 */
import { nft, restore } from "./restore.ts";

export interface UfwSettings {
  /** DEFAULT_FORWARD_POLICY. */
  readonly forwardPolicy?: "DROP" | "ACCEPT";
  /** `ufw allow`. */
  readonly allowed?: readonly string[];
  /** `ufw route allow`. */
  readonly routed?: readonly string[];
}

/** `ufw reload` empties and fills only ufw's chains, and sets the policies. */
export function ufwReload({
  forwardPolicy = "DROP",
  allowed = [],
  routed = [],
}: UfwSettings): string {
  return restore("filter", [
    ...[":INPUT DROP", `:FORWARD ${forwardPolicy}`],
    ...[":ufw-before-input", ":ufw-not-local", ":ufw-user-input", ":ufw-logging-deny"],
    ...[":ufw-after-input", ":ufw-skip-to-policy-input", ":ufw-before-forward"],
    ...[":ufw-user-forward", ":ufw-before-output", ":ufw-track-output"],
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
    ...allowed.map((match) => `-A ufw-user-input ${match} -j ACCEPT`),
    "-A ufw-after-input -p udp -m udp --dport 137 -j ufw-skip-to-policy-input",
    "-A ufw-after-input -m addrtype --dst-type BROADCAST -j ufw-skip-to-policy-input",
    "-A ufw-skip-to-policy-input -j DROP",
    "-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
    "-A ufw-before-forward -p icmp -m icmp --icmp-type 8 -j ACCEPT",
    "-A ufw-before-forward -j ufw-user-forward",
    ...routed.map((match) => `-A ufw-user-forward ${match} -j ACCEPT`),
    "-A ufw-before-output -o lo -j ACCEPT",
    "-A ufw-before-output -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
    "-A ufw-track-output -p tcp -m conntrack --ctstate NEW -j ACCEPT",
    "-A ufw-track-output -p udp -m conntrack --ctstate NEW -j ACCEPT",
  ]);
}

/** `ufw enable`. */
export function ufw(settings: UfwSettings = {}): string {
  const jumps = restore("filter", [
    "-A INPUT -j ufw-before-input",
    "-A INPUT -j ufw-after-input",
    "-A FORWARD -j ufw-before-forward",
    "-A OUTPUT -j ufw-before-output",
    "-A OUTPUT -j ufw-track-output",
  ]);
  return ufwReload(settings) + jumps;
}

export interface FirewalldSettings {
  /** Networks in the zone `trusted`. */
  readonly trusted?: readonly string[];
  /** Matches that the zone `public` accepts, for iptables. */
  readonly allowed?: readonly string[];
  /** Matches of forwarded packets that the zone `public` accepts, for iptables. */
  readonly forwarded?: readonly string[];
}

/** Starting, reloading and stopping firewalld 1.3 empties all tables of iptables, with either backend. */
export const firewalldFlush: string = `
  for program in iptables ip6tables; do for table in raw mangle nat filter; do
    $program -w 5 -t $table -F; $program -w 5 -t $table -X
  done; done
`;

/** firewalld's rules with FirewallBackend=iptables, written into empty tables. */
export function firewalld({
  trusted = [],
  allowed = [],
  forwarded = [],
}: FirewalldSettings = {}): string {
  const trustedInput = (zones: string, chain: string): readonly string[] =>
    trusted.map((network) => `-A ${zones} -s ${network} -g ${chain}`);
  return restore("filter", [
    ...[":INPUT_direct", ":INPUT_ZONES", ":IN_public", ":IN_public_allow", ":IN_trusted"],
    ...[":FORWARD_direct", ":FORWARD_ZONES", ":FWD_public", ":FWD_public_allow", ":FWD_trusted"],
    "-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT",
    "-A INPUT -i lo -j ACCEPT",
    "-A INPUT -m conntrack --ctstate INVALID -j DROP",
    "-A INPUT -j INPUT_direct",
    "-A INPUT -j INPUT_ZONES",
    "-A INPUT -j REJECT --reject-with icmp-host-prohibited",
    ...trustedInput("INPUT_ZONES", "IN_trusted"),
    "-A INPUT_ZONES -g IN_public",
    "-A IN_public -j IN_public_allow",
    "-A IN_public -p icmp -j ACCEPT",
    "-A IN_public -j REJECT --reject-with icmp-port-unreachable",
    ...allowed.map((match) => `-A IN_public_allow ${match} -j ACCEPT`),
    "-A IN_trusted -j ACCEPT",
    "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT",
    "-A FORWARD -i lo -j ACCEPT",
    "-A FORWARD -m conntrack --ctstate INVALID -j DROP",
    "-A FORWARD -j FORWARD_direct",
    "-A FORWARD -j FORWARD_ZONES",
    "-A FORWARD -j REJECT --reject-with icmp-host-prohibited",
    ...trustedInput("FORWARD_ZONES", "FWD_trusted"),
    "-A FORWARD_ZONES -g FWD_public",
    "-A FWD_public -j FWD_public_allow",
    ...forwarded.map((match) => `-A FWD_public_allow ${match} -j ACCEPT`),
    "-A FWD_public -j REJECT --reject-with icmp-port-unreachable",
    "-A FWD_trusted -j ACCEPT",
  ]);
}

export interface NftFirewalldSettings {
  /** Statements of the zone dispatch and of the zone `public`, in nft's language. */
  readonly inputZones?: readonly string[];
  readonly allowed?: readonly string[];
  readonly forwardZones?: readonly string[];
}

/** firewalld's rules with FirewallBackend=nftables. */
export function nftFirewalld({
  inputZones = [],
  allowed = [],
  forwardZones = [],
}: NftFirewalldSettings = {}): string {
  return nft([
    "table inet firewalld {",
    "chain filter_PREROUTING { type filter hook prerouting priority filter + 10; policy accept;",
    "icmpv6 type { nd-router-advert, nd-neighbor-solicit } accept",
    "meta nfproto ipv6 fib saddr . mark . iif oif missing drop; }",
    "chain filter_INPUT { type filter hook input priority filter + 10; policy accept;",
    "ct state established,related accept; ct status dnat accept; iifname lo accept",
    "ct state invalid drop; jump filter_INPUT_ZONES; reject with icmpx type admin-prohibited; }",
    "chain filter_FORWARD { type filter hook forward priority filter + 10; policy accept;",
    "ct state established,related accept; ct status dnat accept; iifname lo accept",
    "ct state invalid drop; jump filter_FORWARD_ZONES; reject with icmpx type admin-prohibited; }",
    "chain filter_OUTPUT { type filter hook output priority filter + 10; policy accept;",
    "ct state established,related accept; oifname lo accept; }",
    "chain filter_INPUT_ZONES {",
    ...inputZones,
    "goto filter_IN_public; }",
    "chain filter_IN_public { jump filter_IN_public_allow",
    "meta l4proto { icmp, ipv6-icmp } accept; reject with icmpx type admin-prohibited; }",
    "chain filter_IN_public_allow {",
    ...allowed,
    "}",
    "chain filter_FORWARD_ZONES {",
    ...forwardZones,
    "}",
    "}",
  ]);
}

export interface DockerSettings {
  readonly published?: number;
  /** The address and port to which Docker translates the published port. */
  readonly to?: string;
  readonly forwardPolicy?: "DROP" | "ACCEPT";
  /** Rules that an administrator adds, without the chain. */
  readonly user?: readonly string[];
}

/** The bridge docker0 with a container at 172.17.0.2. */
export function docker({
  published = 8088,
  to = "172.17.0.2:80",
  forwardPolicy = "DROP",
  user = [],
}: DockerSettings = {}): string {
  return (
    restore("filter", [
      ...[`:FORWARD ${forwardPolicy}`, ":DOCKER", ":DOCKER-USER"],
      ...[":DOCKER-ISOLATION-STAGE-1", ":DOCKER-ISOLATION-STAGE-2"],
      "-I FORWARD -j DOCKER-USER",
      "-I FORWARD 2 -j DOCKER-ISOLATION-STAGE-1",
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
      ...user.map((rule) => `-A DOCKER-USER ${rule}`),
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
}
