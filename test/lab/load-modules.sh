# Sourced by guest.sh and host.sh: loads the modules that tests need, without IPVS modules if LAB_IPVS is "absent", and
# without iptables and ipset modules if LAB_IPTABLES is "none". The modules are listed because automatic loading does
# not always work in the lab kernel.
ipvs="ip_vs ip_vs_rr ip_vs_wrr ip_vs_lc ip_vs_wlc ip_vs_sh ip_vs_dh ip_vs_sed ip_vs_nq
  ip_vs_fo ip_vs_ovf ip_vs_mh ip_vs_lblc ip_vs_lblcr"
xtables="ip_tables ip6_tables iptable_nat iptable_filter iptable_mangle ip6table_nat ip6table_filter ip6table_mangle
  ipt_REJECT ip6t_REJECT xt_MASQUERADE xt_REDIRECT xt_addrtype xt_comment xt_conntrack xt_mark xt_nat
  xt_physdev xt_set xt_statistic xt_tcpudp xt_multiport xt_limit xt_LOG xt_recent xt_time
  ip_set ip_set_bitmap_port ip_set_hash_ip ip_set_hash_ipport ip_set_hash_ipportip
  ip_set_hash_ipportnet ip_set_hash_net"
if [ "$LAB_IPVS" = present ]; then xtables="$xtables xt_ipvs"; else ipvs=; fi
[ "$LAB_IPTABLES" != none ] || xtables=
modprobe -a dummy veth ipip ip6_tunnel bridge br_netfilter nf_conntrack nf_conntrack_netlink nf_nat sctp $xtables $ipvs ||
  echo "lab: some modules could not be loaded" >&2
