/** Checks tunnel forwarding between nodes. */
import { ipFamilies } from "../../base/ip.ts";
import { setFor } from "../../plan/sets.ts";
import { tunnelLinks, tunnelOverheadBytes } from "../../state/tunnel-link.ts";
import { type Check, check, fail, ipvsMode, ok, warn } from "../check.ts";

export const tunnelChecks: readonly Check[] = [
  check({
    name: "tunnel-forwarding",
    modes: ipvsMode,
    needs: ["installed"],
    why: "packets that other nodes forward are lost if the tunnel links are missing, or if the packets are too large for the tunnel",
    async read(node) {
      const facts = await node.tunnelForwarding();
      const names = new Set((await node.sets()).map(({ name }) => name));
      const used = ipFamilies.filter((family) => names.has(setFor("tunnelNodes", family).name));
      return { ...facts, used };
    },
    judge({ links, undelivered, uplinks, used, connections, unanswered }, { isTunneling }) {
      if (!isTunneling) return ok("kubeIpvs.tunnelForwarding is off");
      const missing = used
        .map((family) => tunnelLinks[family].name)
        .filter((name) => !links.includes(name));
      if (missing.length > 0) {
        const remedy =
          "run modprobe -a ipip ip6_tunnel on the node; if that does not help, kube-ipvs' log has the reason";
        return fail(`there is no link ${missing.join(" and no link ")}`, remedy);
      }
      if (used.length === 0)
        return ok("no Service uses tunnel forwarding, or no other Node is known");
      if (undelivered.length > 0) {
        const names = undelivered.join(" and ");
        return fail(
          `packets to node ports that arrive through ${names} are dropped, because no routing rule delivers them`,
          "kube-ipvs creates the rule at its next sync; if ip rule still does not show it then, kube-ipvs' log has the reason",
        );
      }
      if (unanswered.length > 0) {
        const nodes = unanswered.map(
          ({ realServer, connections: count }) => `${realServer} (${count})`,
        );
        return warn(
          `nodes that do not answer, with the number of connections: ${nodes.join(", ")}`,
          "on these nodes, check whether the tunnel link receives packets (ip -s link); docs/tunnel-forwarding.md lists what may drop them",
        );
      }
      const forwarded = `${links.join(", ")}; ${connections} TCP connections to other nodes`;
      const sizes = used.map((family) => {
        const uplink = uplinks.get(family);
        if (uplink === undefined) return `there is no ${family} default route`;
        const bytes = uplink.mtu - tunnelOverheadBytes[family];
        return `${uplink.name} has MTU ${uplink.mtu}, so tunneled ${family} packets have at most ${bytes} bytes`;
      });
      return ok([forwarded, ...sizes].join("; "));
    },
  }),
];
