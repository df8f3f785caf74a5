import type { TableName } from "../../src/state/rule.ts";
import type { FakeIptables } from "./fake-kernel/fake-iptables.ts";

/** Adds rules from `iptables-save` output as another program would. */
export function putRules(iptables: FakeIptables, saved: string): void {
  let table: TableName = "nat";
  for (const line of saved.split("\n")) {
    const [, opened, created, chain = "", text = ""] =
      /^(?:\*(\S+)|:(\S+) - .*|-A (\S+) (.*))$/.exec(line) ?? [];
    if (opened !== undefined) table = opened as TableName;
    else if (created !== undefined) iptables.table("IPv4", table).create(created);
    else if (chain !== "") iptables.table("IPv4", table).append(chain, text);
  }
}

/** The rules that kube-proxy 1.36 in iptables mode writes for three Services, shortened, as iptables-restore input. */
export const iptablesModeRules = `*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-PROXY-CANARY - [0:0]
COMMIT
*nat
:KUBE-EXT-ZNLZPHNJPSNFOWJC - [0:0]
:KUBE-FW-ZNLZPHNJPSNFOWJC - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-MARK-DROP - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-SEP-6E37RDV4FITU7CIU - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-ZNLZPHNJPSNFOWJC - [0:0]
:KUBE-SVL-ZNLZPHNJPSNFOWJC - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-EXT-ZNLZPHNJPSNFOWJC -m comment --comment "masquerade traffic for default/b:u external destinations" -j KUBE-MARK-MASQ
-A KUBE-EXT-ZNLZPHNJPSNFOWJC -j KUBE-SVC-ZNLZPHNJPSNFOWJC
-A KUBE-FW-ZNLZPHNJPSNFOWJC -s 192.0.2.0/24 -m comment --comment "default/b:u loadbalancer IP" -j KUBE-EXT-ZNLZPHNJPSNFOWJC
-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-NODEPORTS -p udp -m comment --comment "default/b:u" -m udp --dport 30053 -j KUBE-EXT-ZNLZPHNJPSNFOWJC
-A KUBE-SEP-6E37RDV4FITU7CIU -s 10.244.1.10/32 -m comment --comment "default/b:u" -j KUBE-MARK-MASQ
-A KUBE-SEP-6E37RDV4FITU7CIU -p udp -m comment --comment "default/b:u" -m udp -j DNAT --to-destination 10.244.1.10:53
-A KUBE-SERVICES -d 10.96.0.10/32 -p udp -m comment --comment "default/b:u cluster IP" -m udp --dport 53 -j KUBE-SVC-ZNLZPHNJPSNFOWJC
-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-SVC-ZNLZPHNJPSNFOWJC -m comment --comment "default/b:u -> 10.244.1.10:53" -j KUBE-SEP-6E37RDV4FITU7CIU
COMMIT
*filter
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-SERVICES - [0:0]
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -j KUBE-FIREWALL
-A KUBE-EXTERNAL-SERVICES -d 198.51.100.7/32 -p tcp -m comment --comment "default/c has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-PROXY-FIREWALL -d 203.0.113.5/32 -p udp -m comment --comment "default/b:u traffic not accepted by KUBE-FW-ZNLZPHNJPSNFOWJC" -m udp --dport 53 -j DROP
-A KUBE-SERVICES -d 10.96.0.11/32 -p tcp -m comment --comment "default/c has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
COMMIT
`;
